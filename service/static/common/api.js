// Calls of the server's public API. The page uses no other route, so programs can do the same.

/**
 * The facts of a failed request.
 * @typedef {Object} Facts
 * @property {number} [status] Status of the answer; 0 if no answer came.
 * @property {string} [type] The answer's error_type, or `network`.
 * @property {number|null} [retryAfter] Seconds after which the server expects to answer.
 * @property {string|null} [requestId]
 */

/** The failure of a request. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {Facts} facts
   */
  constructor(message, { status = 0, type = 'network', retryAfter = null, requestId = null } = {}) {
    super(message);
    this.status = status;
    this.type = type;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
  }
}

/**
 * Reports whether an exception is the failure of a request.
 * @param {unknown} error
 * @returns {error is ApiError}
 */
const isApiError = (error) => error instanceof ApiError;

/** Returns the address of a route, relative so that the page works below any prefix. */
export const addressOf = (path) => new URL(path, document.baseURI).href;

/** Gets the JSON at an address. */
export const get = (path, signal) => send(path, { signal }, (response) => response.json());

/** Posts a body and returns the answer's JSON. */
export const post = (path, body, signal) =>
  send(path, posted(body, signal), (response) => response.json());

/** Posts a form, which may hold a file, and returns the answer's JSON. */
export const postForm = (path, form, signal) =>
  send(path, { method: 'POST', body: form, signal }, (response) => response.json());

/** Posts a body and yields the JSON of each line of the answer, as soon as it has come. */
export async function* postForLines(path, body, signal) {
  const options = posted(body, signal, { Accept: 'application/x-ndjson' });
  const lines = linesOf((await send(path, options, (response) => response)).body);
  for (;;) {
    const { value, done } = await guarded(() => lines.next());
    if (done) return;
    yield value;
  }
}

/** Posts a body and returns the answer's bytes. */
export const postForFile = (path, body) => send(path, posted(body), (response) => response.blob());

function posted(body, signal, accepted = {}) {
  const headers = { 'Content-Type': 'application/json', ...accepted };
  return { method: 'POST', headers, body: JSON.stringify(body), signal };
}

function send(path, options, read) {
  return guarded(async () => {
    const response = await fetch(addressOf(path), options);
    if (!response.ok) throw await refusal(response);
    return read(response);
  });
}

/** Loads a part of the page, with the errors of a request. */
export const loaded = (load) => guarded(load);

/** Runs a part of a request; any other failure than an answer is a lost connection. */
async function guarded(work) {
  countPending(1);
  try {
    return await work();
  } catch (error) {
    if (isApiError(error) || isAbort(error)) throw error;
    throw connectionLost();
  } finally {
    countPending(-1);
  }
}

let numPending = 0;

/** Marks the page while it waits for an answer; the style sheet then shows a moving bar. */
function countPending(change) {
  numPending += change;
  document.documentElement.toggleAttribute('data-pending', numPending > 0);
}

const isAbort = (error) => error instanceof DOMException && error.name === 'AbortError';

/** Returns the failure of a request whose answer did not come, or not as a whole. */
export const connectionLost = () => new ApiError('The connection to the server was lost.');

async function* linesOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line);
  }
}

async function refusal(response) {
  const body = await response.json().catch(() => ({})); // a proxy may answer with a page
  const seconds = Number.parseInt(response.headers.get('Retry-After') ?? '', 10);
  return errorOf(body, {
    status: response.status,
    retryAfter: Number.isFinite(seconds) ? seconds : null,
    requestId: response.headers.get('X-Request-Id'),
  });
}

/**
 * Returns the error that a body describes, in either of the two shapes of the API.
 * @param {Json} body
 * @param {Facts} known
 */
export function errorOf(body, known = {}) {
  const openai = { message: body.error?.message, type: body.error?.code }; // under v1/
  const own = { message: withDetails(body) ?? body.message, type: body.error_type };
  const { message, type } = typeof body.error === 'object' ? openai : own;
  return new ApiError(typeof message === 'string' ? message : '', {
    ...known,
    type: type ?? 'unknown',
    requestId: body.request_id ?? known.requestId,
  });
}

/** Joins the text of an error and its details, as the shape under v1/ does. */
const withDetails = ({ error, details }) => (details ? `${error}; ${details}` : error);

/** Sends a request, unless it is the same as the last one: that one's reply is kept. */
export class LastReply {
  #key = '';
  /** @type {Json} */
  #reply = null;

  async post(path, body, signal) {
    const key = JSON.stringify([path, body]);
    if (this.#key !== key) [this.#reply, this.#key] = [await post(path, body, signal), key];
    return this.#reply;
  }
}

/** Runs one operation at a time: a new operation aborts the requests of the previous operation. */
export class Latest {
  /** @type {AbortController|null} */
  #controller = null;

  /**
   * @template T
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
