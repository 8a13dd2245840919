// Numbers and reasons as people read them.

/** Milliseconds with their unit: three digits, no more. */
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const size = Math.abs(ms);
  if (size < 0.0005) return "0";
  if (size < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (size < 10) return `${ms.toFixed(1)} ms`;
  if (size < 1000) return `${ms.toFixed(0)} ms`;
  if (size < 60_000) return `${(ms / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

/** A part in percent; never rounded up to all, nor down to none. */
export function percent(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  const value = ratio * 100;
  if (value === 100 || value === 0) return `${value} %`;
  const digits = (value > 99 && value < 100) || value < 1 ? 2 : 1;
  const cut = Math.floor(value * 10 ** digits) / 10 ** digits;
  return `${cut === 0 ? (10 ** -digits).toFixed(digits) : cut.toFixed(digits)} %`;
}

export const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");

/** The part that was in time; null with nothing to be judged. */
export const ratioOf = (kept) => (kept.ended ? kept.in_time / kept.ended : null);

const REASONS = {
  "rejected/model_not_found": "no such model",
  "rejected/model_unavailable": "model not ready",
  "rejected/draining": "the server is going away",
  "rejected/deadline_past": "arrived too late",
  "rejected/too_many_rows": "too many rows",
  "rejected/model_queue_full": "the model's queue is full",
  "rejected/model_bytes_full": "the model's queue is full (bytes)",
  "rejected/server_queue_full": "the server's queue is full",
  "rejected/server_bytes_full": "the server's queue is full (bytes)",
  "rejected/predicted_late": "refused: would have been late",
  "rejected/displaced": "gave its place to more important work",
  "expired/deadline_past": "the deadline passed",
  "expired/hopeless": "given up: late even on an idle device",
  "expired/predicted_late": "given up: would have been late",
  "failed/executor_failed": "the model raised",
  "failed/out_of_memory": "out of memory",
  "failed/worker_lost": "its worker died",
  "failed/model_not_found": "the model was unloaded",
  "failed/load_failed": "the model could not be loaded",
};

export function reason(outcome, name) {
  return REASONS[`${outcome}/${name}`] ?? `${outcome}: ${name}`;
}
