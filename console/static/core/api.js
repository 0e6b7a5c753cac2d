// Requests to the server: JSON in both directions, errors with the server's message, streams of events.

const TIMEOUT_MS = 20_000;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// address`/topics/${name}`: a path whose parts are escaped.
export function address(strings, ...values) {
  return String.raw({ raw: strings }, ...values.map(encodeURIComponent));
}

// A path that begins without "/" is one of /api/v1.
const full = (path) => (path.startsWith("/") ? path : `/api/v1/${path}`);

// Returns the body of the answer; null if it has none. `query`: values that are null or "" are left out.
export async function request(method, path, { body, query, signal, timeout = TIMEOUT_MS } = {}) {
  const options = { method, headers: {}, signal: AbortSignal.any([AbortSignal.timeout(timeout), ...(signal ? [signal] : [])]) };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  } else if (method !== "GET") {
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(full(withQuery(path, query)), options);
  } catch (error) {
    if (error.name === "TimeoutError") throw new ApiError(0, `No answer within ${timeout / 1000} s.`);
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The console cannot be reached.");
  }
  const text = await response.text();
  const isJson = (response.headers.get("Content-Type") ?? "").startsWith("application/json");
  const found = isJson && text ? JSON.parse(text) : null;
  if (response.ok) return found;
  throw new ApiError(response.status, found?.message ?? found?.error ?? (text.trim() || `HTTP ${response.status}`));
}

export const get = (path, options) => request("GET", path, options);
export const post = (path, body) => request("POST", path, { body });

export function withQuery(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}${path.includes("?") ? "&" : "?"}${text}` : path;
}

// Server-sent events, until `signal` is aborted. `handlers`: a function for each event's name, called with its data
// (parsed JSON); `open` and `lost` tell about the connection, which the browser opens again by itself.
export function events(path, handlers, signal) {
  const source = new EventSource(full(path));
  signal.addEventListener("abort", () => source.close(), { once: true });
  for (const [name, handler] of Object.entries(handlers)) {
    if (name === "open") source.addEventListener("open", () => handler());
    else if (name === "lost") source.addEventListener("error", () => handler(source.readyState === EventSource.CLOSED));
    else source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
  return source;
}

let session = null;

// Who looks, and what the server can do: asked once. See /api/v1/session.
export function getSession() {
  session ??= get("session").catch((error) => {
    session = null;
    throw error;
  });
  return session;
}

// The path of the cluster in /v3.
export async function cluster(path) {
  const { cluster_id } = await getSession();
  return `${address`/v3/clusters/${cluster_id}`}${path}`;
}
