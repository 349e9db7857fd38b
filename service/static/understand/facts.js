// The numbers of the story: all that the translator computes for one token of a sentence.

import { post } from '../common/api.js';
import { FORMS, TRANSLATOR_HEAD } from './kids.js';

const CANDIDATES = 4;
const DECIMALS = 5; // Of a share, so that a reply is half as long.
const PRONOUNS = ['▁they', '▁it', '▁she', '▁he'];
const POOL = 'pool beats badminton';
const POOL_GAME = 'bilhar bate badminton';
const POOL_IN_CONTEXT = 'A game of pool and a game of badminton.';

/**
 * The pair of languages of the story, and the model that translates it.
 * @typedef {{source: string, target: string}} Pair
 */

/** Returns the request for all weights of a sentence, and for its probabilities. */
export function sentenceBody(text, pair, model) {
  const kinds = ['encoder', 'cross', 'decoder'].filter((kind) => kind in model.attention);
  const probabilities = { top_k: CANDIDATES };
  return { text, ...pair, kinds, layers: 'all', reduce: 'none', decimals: DECIMALS, probabilities };
}

/** Returns the request for the computation of the followed token in one head of the encoder. */
export function tokenBody(text, pair, { layer, head }, query) {
  const include = ['vectors', 'output', 'block'];
  return { text, ...pair, kind: 'encoder', layer, head, query, include };
}

/** Requests all weights and probabilities of a sentence. */
export async function readSentence(text, pair, model, signal) {
  const { items } = await post('attention', sentenceBody(text, pair, model), signal);
  const [item] = items;
  const { encoder, cross, decoder } = Object.fromEntries(item.attentions.map(({ kind, data }) => [kind, data]));
  const own = decoder?.[0][0] ?? null; // The decoder's self-attention, if it has any.
  return { text, item, tokens: item.source.tokens, encoder, cross, own };
}

/**
 * Requests the computation of one token of a sentence.
 * @param {Object} sentence What `readSentence` returned.
 * @param {number} token
 * @param {Pair} pair
 * @param {Object} model The model, as GET /v1/models describes it.
 * @param {AbortSignal} signal
 */
export async function readToken(sentence, token, pair, model, signal) {
  const place = headOf(sentence, token, model.id);
  const body = tokenBody(sentence.text, pair, place, token);
  const steps = await post('attention/steps', body, signal);
  return { ...sentence, ...place, token, steps, model, written: writtenFor(sentence, token) };
}

/** Requests the numbers of the example in which the model takes the wrong sense of a word. */
export async function readPool(pair, model, signal) {
  const other = { text: POOL, ...pair, target_text: POOL_GAME, probabilities: {} };
  const [sentence, game, context] = await Promise.all([
    readSentence(POOL, pair, model, signal),
    post('attention', { ...other, top_k: 1 }, signal),
    post('attention', { text: POOL_IN_CONTEXT, ...pair, top_k: 1 }, signal),
  ]);
  const { source, target } = sentence.item;
  const words = placesOf(source, [POOL.indexOf('badminton'), POOL.length]);
  return {
    ...{ translation: target.text, written: target.tokens[0] },
    drawn: await readToken(sentence, 0, pair, model, signal),
    game: firstWord(game.items[0]),
    context: { text: POOL_IN_CONTEXT, translation: context.items[0].target.text },
    most: Math.max(...sentence.encoder.flat().map((head) => sumAt(head[0], words))),
  };
}

const sumAt = (row, places) => places.reduce((sum, place) => sum + row[place], 0);

/** Returns the numbers of the tokens of a side within a span of its text. */
function placesOf({ offsets }, [from, to]) {
  return offsets.flatMap(([start, end], index) =>
    start >= from && end <= to && end > start ? [index] : [],
  );
}

/** Returns the probability of the first word of a translation: the product over its tokens. */
function firstWord({ target, probabilities }) {
  const next = target.tokens.findIndex((token, place) => place > 0 && token.startsWith('▁'));
  const logs = probabilities.log_probs.slice(0, next);
  return Math.exp(logs.reduce((sum, log) => sum + log, 0));
}

/** Returns the token that the story follows when the reader has chosen none: a pronoun, if any. */
export function usualToken({ tokens, item }) {
  const pronoun = tokens.findIndex((token) => PRONOUNS.includes(token));
  return pronoun >= 0 ? pronoun : Math.max(0, item.source.special.indexOf(false));
}

/** Returns the head in which a token looks most at another word. */
function headOf({ text, tokens, encoder, item }, token, name) {
  const isKids = FORMS.some((form) => form.text === text) && tokens[token] === '▁they';
  if (isKids && name === TRANSLATOR_HEAD.model) {
    const { layer, head } = TRANSLATOR_HEAD;
    return { layer, head };
  }
  const isWord = tokens.map((name, index) => index !== token && /[\p{L}\p{N}]/u.test(name));
  const places = encoder.flatMap((heads, layer) =>
    heads.map((rows, head) => {
      const shares = rows[token].filter((_, i) => isWord[i] && !item.source.special[i]);
      return { layer, head, share: Math.max(0, ...shares) };
    }),
  );
  const { layer, head } = places.reduce((a, b) => (b.share > a.share ? b : a));
  return { layer, head };
}

/**
 * Returns the place of the target token that translates a source token, and the head for it. If
 * no word is aligned with the token, the place is that of the first token.
 */
function writtenFor({ item, cross }, token) {
  const { source_words: sources, target_words: targets, pairs } = item.alignment;
  const word = sources.findIndex(([from, to]) => from <= token && token < to);
  const best = pairs.filter(([source]) => source === word).sort((a, b) => b[2] - a[2])[0];
  const place = best ? targets[best[1]][0] : 0;
  const layer = cross.length - 1;
  const shares = cross[layer].map((rows) => rows[place][token]);
  const head = shares.indexOf(Math.max(...shares));
  return { place, isAligned: best !== undefined, layer, head };
}
