// Events of a server, read with fetch and not with EventSource, which cannot send a key in a header: a key has
// no place in a URL, where logs and histories keep it.

const RETRY_MS = 2000;
const RETRY_MS_MAX = 15_000;
const SILENCE_MS = 8000; // events come twice a second

/** Headers that show a key, if there is one. */
export const withKey = (key) => (key ? { "headway-key": key } : {});

export class Stream {
  #url;
  #key = "";
  #abort = null;
  #wait = RETRY_MS;
  #timer = 0;
  #turn = 0;

  /** `on` has `event(name, value)` and `state(name, words)`. */
  constructor(url, on) {
    this.#url = url;
    this.on = on;
  }

  /** Begin, or begin anew with another key. */
  start(key = this.#key) {
    this.#key = key;
    this.stop();
    this.#turn += 1;
    this.#run(this.#turn);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
  }

  async #run(turn) {
    const abort = new AbortController();
    this.#abort = abort;
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE_MS);
    };
    let words = "The server went away";
    try {
      heard();
      const headers = { accept: "text/event-stream", ...withKey(this.#key) };
      const answer = await fetch(this.#url, { headers, signal: abort.signal, cache: "no-store" });
      if (!answer.ok) {
        const body = await answer.json().catch(() => ({}));
        words = body.error ?? `The server answered ${answer.status}`;
        if (turn !== this.#turn) return;
        if (answer.status === 401 || answer.status === 403) {
          this.on.state("locked", words);
          return; // a key may help, trying again does not
        }
      } else {
        await this.#read(answer.body, turn, heard);
      }
    } catch {
      // told below
    } finally {
      clearTimeout(silence);
    }
    if (turn !== this.#turn) return;
    this.on.state("lost", words);
    this.#timer = setTimeout(() => this.#run(turn), this.#wait);
    this.#wait = Math.min(this.#wait * 2, RETRY_MS_MAX);
  }

  async #read(body, turn, heard) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done || turn !== this.#turn) return;
      heard();
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) this.#tell(event);
    }
  }

  #tell(text) {
    let name = "message";
    let data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (!data) return;
    this.#wait = RETRY_MS;
    this.on.state("live", "Live");
    this.on.event(name, JSON.parse(data));
  }
}
