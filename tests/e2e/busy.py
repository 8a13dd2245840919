"""Keeps a server busy until it is ended: `python busy.py PORT`, a process of its own.

A module's tests share it, and none of them is to blame for the connections that it opens. Quick
requests are in time, slow ones are more than the server takes; one tenant has markup in its name.
"""

import http.client
import json
import sys
import threading
import time
from contextlib import suppress

MARKUP = "<img src=x onerror=alert(1)>"
TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}
BODY = json.dumps({"inputs": [TENSOR]})
ASKING = (("quick", "shop", 0.03), ("quick", MARKUP, 0.2), *[("slow", "night-job", 0.05)] * 6)


def ask(port: int, model: str, tenant: str, pause_s: float) -> None:
    """One client: a request, its answer, a pause."""
    path = f"/v2/models/{model}/infer"
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with suppress(OSError, http.client.HTTPException):
            while True:
                connection.request("POST", path, BODY, {"headway-tenant": tenant})
                connection.getresponse().read()
                time.sleep(pause_s)
        connection.close()
        time.sleep(0.1)


if __name__ == "__main__":
    for each in ASKING[1:]:
        threading.Thread(target=ask, args=(int(sys.argv[1]), *each), daemon=True).start()
    ask(int(sys.argv[1]), *ASKING[0])
