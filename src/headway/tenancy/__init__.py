"""Who a client is, what it may use, and what it has used: keys, limits, quotas, the ledger.

Knows tenants, amounts and instants. Must never import HTTP, gRPC, an engine or the kernel's
decisions: a gate says yes or no before a request arrives there, and is told what became of it.
"""

from headway.tenancy.account import Account, LimitState, TenantCounts, places_of
from headway.tenancy.gate import Gate, Pass
from headway.tenancy.history import used_before
from headway.tenancy.keys import KEY_FORM, KeyParams, KeyRing, hash_of, is_key_hash, new_key
from headway.tenancy.ledger import Ledger, Usage, UsageSum, open_ledger
from headway.tenancy.outcomes import Ask, Ending, Outcome
from headway.tenancy.quotas import Period
from headway.tenancy.tenants import QuotaParams, TenantParams

__all__ = [
    "KEY_FORM",
    "Account",
    "Ask",
    "Ending",
    "Gate",
    "KeyParams",
    "KeyRing",
    "Ledger",
    "LimitState",
    "Outcome",
    "Pass",
    "Period",
    "QuotaParams",
    "TenantCounts",
    "TenantParams",
    "Usage",
    "UsageSum",
    "hash_of",
    "is_key_hash",
    "new_key",
    "open_ledger",
    "places_of",
    "used_before",
]
