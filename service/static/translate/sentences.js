// The stream of a translation: sentence by sentence, as the server translates them.

import { connectionLost, errorOf, postForLines } from '../common/api.js';

/**
 * A translated sentence, with the white space around it.
 * @typedef {Object} Sentence
 * @property {number} sentence Its index in the text.
 * @property {string} translatedText
 * @property {AlignedSentence[]} [alignment] With words in code points of the whole texts.
 * @property {Detected} [detectedLanguage] Of the first sentence, if it was detected.
 * @property {Json} body The request.
 */

/**
 * Yields the sentences of a text. A text that goes through two models has no aligned words.
 * @param {Json} body A request to POST /translate with `return_alignment`.
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Sentence>}
 */
export async function* translatedSentences(body, signal) {
  try {
    yield* streamed(body, signal);
  } catch (error) {
    if (/** @type {ApiError} */ (error).type !== 'invalid_request') throw error;
    yield* streamed({ ...body, return_alignment: undefined }, signal);
  }
}

async function* streamed(body, signal) {
  for await (const event of postForLines('translate', body, signal)) {
    if (event.done) return;
    if (event.error !== undefined) throw errorOf(event);
    yield { ...event, body };
  }
  throw connectionLost();
}
