// The HTTP API, found relative to the page, so that the dashboard works below any path.

const BASE = new URL("api/v1/", document.baseURI);

/** What the API refused, in words that can be shown. */
export class ApiError extends Error {
  constructor(status, code, message, field = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

const WORDS = {
  401: "You are not signed in.",
  403: "Your role does not allow this.",
  404: "This is not there any more.",
  409: "Somebody changed it in the meantime. Look again and decide anew.",
  413: "That is too large.",
  429: "Too many requests at once. Wait a moment and try again.",
  503: "The store does not answer at the moment.",
  504: "The store took too long to answer. Try again, or ask for less.",
};

export class Api {
  constructor() {
    this.csrf = null;
    this.onSignedOut = () => {};
  }

  get(path, query) { return this.call("GET", path, query); }
  post(path, body) { return this.call("POST", path, null, body); }
  put(path, body) { return this.call("PUT", path, null, body); }
  patch(path, body) { return this.call("PATCH", path, null, body); }
  delete(path) { return this.call("DELETE", path); }

  async call(method, path, query, body) {
    const headers = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (method !== "GET" && this.csrf) headers["X-Holdfast-CSRF"] = this.csrf;
    let answer;
    try {
      answer = await fetch(address(path, query), {
        method, headers, credentials: "same-origin", cache: "no-store", redirect: "error",
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch {
      throw new ApiError(0, "unreachable", "The dashboard's server cannot be reached. It may be restarting.");
    }
    if (answer.ok) return answer.status === 204 ? null : answer.json();
    const error = await refusal(answer);
    if (answer.status === 401 && path !== "session") this.onSignedOut();
    throw error;
  }
}

export function address(path, query) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "") url.searchParams.append(name, each);
  }
  return url;
}

/** A path from parts that may hold any character. */
export function path(...parts) {
  return parts.map((part) => encodeURIComponent(String(part).toWellFormed())).join("/");
}

async function refusal(answer) {
  const words = WORDS[answer.status] ?? `The server answered with status ${answer.status}.`;
  try {
    const { error } = await answer.json();
    return new ApiError(answer.status, error.code ?? "error", error.message || words, error.field ?? null);
  } catch {
    return new ApiError(answer.status, "error", words);
  }
}
