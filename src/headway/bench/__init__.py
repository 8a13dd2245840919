"""`headway bench`: how right the predictors are, on real models, on this machine.

Knows set-ups, loads, recordings and predictors by name. Must never import a frontend, and a model
only in the recorder's own process: whoever scores a journal needs none.
"""

from headway.bench.campaign import FULL, QUICK, Campaign, News, OnNews, carry_out, orders_of
from headway.bench.judge import (
    ORACLE,
    ColdRow,
    Factory,
    Judged,
    Judgement,
    PredictionRow,
    ResponseRow,
    ScoreRow,
    ShiftRow,
    judge,
    listen_to,
    score_rows,
    summarise,
)
from headway.bench.orders import (
    OTHERS_CORES_MAX,
    SIDECARS,
    Order,
    Progress,
    Recorded,
    RunOrder,
    Sidecar,
    SoloMeasured,
)
from headway.bench.plan import Shift
from headway.bench.run import PREDICTORS, Outcome, draw, run_campaign, shipped
from headway.bench.setups import SETUPS, Setup
from headway.bench.shadows import ShadowLog
from headway.bench.simulated import (
    Contender,
    Match,
    Played,
    add_oracle,
    play,
    play_all,
    recipe_for,
    section_for,
)

__all__ = [
    "FULL",
    "ORACLE",
    "OTHERS_CORES_MAX",
    "PREDICTORS",
    "QUICK",
    "SETUPS",
    "SIDECARS",
    "Campaign",
    "ColdRow",
    "Contender",
    "Factory",
    "Judged",
    "Judgement",
    "Match",
    "News",
    "OnNews",
    "Order",
    "Outcome",
    "Played",
    "PredictionRow",
    "Progress",
    "Recorded",
    "ResponseRow",
    "RunOrder",
    "ScoreRow",
    "Setup",
    "ShadowLog",
    "Shift",
    "ShiftRow",
    "Sidecar",
    "SoloMeasured",
    "add_oracle",
    "carry_out",
    "draw",
    "judge",
    "listen_to",
    "orders_of",
    "play",
    "play_all",
    "recipe_for",
    "run_campaign",
    "score_rows",
    "section_for",
    "shipped",
    "summarise",
]
