// Calls of the server's public API. The page uses no other route, so programs can do the same.

/** The failure of a request; its status is 0 if no answer came. */
export class ApiError extends Error {
  constructor(message, { status = 0, type = 'network', retryAfter = null, requestId = null } = {}) {
    super(message);
    Object.assign(this, { status, type, retryAfter, requestId });
  }
}

/** Returns the address of a route, relative so that the page works below any prefix. */
export const addressOf = (path) => new URL(path, document.baseURI).href;

/** Gets the JSON at an address. */
export const get = (path, signal) => send(path, { signal }, (response) => response.json());

/** Posts a body and returns the answer's JSON. */
export const post = (path, body, signal) =>
  send(path, posted(body, signal), (response) => response.json());

/** Posts a body and returns the answer's bytes. */
export const postForFile = (path, body) => send(path, posted(body), (response) => response.blob());

function posted(body, signal) {
  const headers = { 'Content-Type': 'application/json' };
  return { method: 'POST', headers, body: JSON.stringify(body), signal };
}

async function send(path, options, read) {
  try {
    const response = await fetch(addressOf(path), options);
    if (!response.ok) throw await refusal(response);
    return await read(response);
  } catch (error) {
    if (error instanceof ApiError || error.name === 'AbortError') throw error;
    throw new ApiError('The connection to the server was lost.');
  }
}

async function refusal(response) {
  const body = await response.json().catch(() => ({})); // a proxy may answer with a page
  const openai = { message: body.error?.message, type: body.error?.code }; // under v1/
  const own = { message: withDetails(body), type: body.error_type };
  const { message, type } = typeof body.error === 'object' ? openai : own;
  const seconds = Number.parseInt(response.headers.get('Retry-After') ?? '', 10);
  return new ApiError(typeof message === 'string' ? message : '', {
    status: response.status,
    type: type ?? 'unknown',
    retryAfter: Number.isFinite(seconds) ? seconds : null,
    requestId: body.request_id ?? response.headers.get('X-Request-Id'),
  });
}

/** Joins the text of an error and its details, as the shape under v1/ does. */
const withDetails = ({ error, details }) => (details ? `${error}; ${details}` : error);

/** Runs one operation at a time: a new operation aborts the requests of the previous operation. */
export class Latest {
  #controller = null;

  /**
   * @param {function(AbortSignal): Promise<T>} work
   * @returns {Promise<T|undefined>} The result of `work`; undefined if a newer operation began.
   */
  async run(work) {
    this.cancel();
    const controller = new AbortController();
    this.#controller = controller;
    try {
      const result = await work(controller.signal);
      return controller.signal.aborted ? undefined : result;
    } catch (error) {
      if (controller.signal.aborted) return undefined;
      throw error;
    }
  }

  /** Aborts the current operation. */
  cancel() {
    this.#controller?.abort();
    this.#controller = null;
  }
}
