// The sentence of the kids and the lions in its four forms, and the two heads that read it.

import { post } from '../common/api.js';

const DECIMALS = 5;

/** The nouns of the opening: those who are scared, and those whom they fear. */
export const NOUNS = ['kids', 'lions'];

/**
 * A head whose attention the opening shows.
 * @typedef {{model: string, layer: number, head: number, subject: Object}} KnownHead
 */

/** The head of the embedding model that follows the subject. */
export const EMBEDDER_HEAD = Object.freeze({
  ...{ model: 'all-MiniLM-L6-v2', layer: 3, head: 1 },
  subject: { task: 'embed', model: 'all-MiniLM-L6-v2' },
});

/** The head of the translator's encoder that follows the kids. */
export const TRANSLATOR_HEAD = Object.freeze({
  ...{ model: 'en-pt', layer: 1, head: 5 },
  subject: { source: 'en', target: 'pt' },
});

/**
 * Returns the sentence of a view, the same fear in the other voice, the word for those who are
 * scared, and the noun that comes first.
 */
export function sentenceOf({ swapped, turned }, [one, other] = NOUNS) {
  const [scared, feared] = swapped ? [other, one] : [one, other];
  const active = `The ${feared} scared the ${scared}`;
  const passive = `The ${scared} were scared of the ${feared}`;
  const [said, second] = turned ? [active, passive] : [passive, active];
  const first = turned ? feared : scared;
  return { text: `${said}, so they left right away.`, other: second, scared, first };
}

/** Returns the four forms of a pair of nouns: as it stands, swapped, turned, and both. */
export const formsOf = (nouns = NOUNS) =>
  [
    { swapped: false, turned: false },
    { swapped: true, turned: false },
    { swapped: false, turned: true },
    { swapped: true, turned: true },
  ].map((form) => ({ ...form, ...sentenceOf(form, nouns) }));

/** The forms of the sentence of the opening. */
export const FORMS = Object.freeze(formsOf());

/** Returns the words of a sentence, and the punctuation and spaces between them. */
export const piecesOf = (text) => text.match(/\w+|[^\w\s]|\s+/g);

/** Returns the words and the punctuation of a sentence; a model adds its marks before or after. */
export const wordsOf = (text) => piecesOf(text).filter((piece) => piece.trim() !== '');

/** Returns the number of the word `they` in a sentence, from 0. */
export const placeOfThey = (text) => wordsOf(text).indexOf('they');

/** Returns the body of the request for one head's attention in some sentences. */
export function headBody({ subject, layer, head }, texts) {
  return {
    text: texts,
    ...subject,
    kinds: ['encoder'],
    layers: [layer],
    heads: [head],
    reduce: 'none',
    level: 'word',
    decimals: DECIMALS,
  };
}

/**
 * The share that a word gives to another one: the other word, its number in the sentence, the share.
 * @typedef {{word: string, index: number, share: number}} Share
 */

/** What one head does with one sentence. */
export class HeadReading {
  /** @param {any} item An item of the reply of /attention, by words. */
  constructor({ source, target, attentions }) {
    const words = source.tokens.map((token) => token.replace(/^▁/, '').toLowerCase());
    const places = words.map((_, index) => index).filter((index) => !source.special[index]);
    const rows = attentions[0].data[0][0];
    /** The shares of each word, largest first. @type {Share[][]} */
    this.shares = places.map((place) =>
      places
        .map((other, index) => ({ word: words[other], index, share: rows[place][other] }))
        .sort((a, b) => b.share - a.share),
    );
    /** The text that the model wrote; null if it does not translate. @type {string|null} */
    this.translation = target?.text ?? null;
    this.they = this.shares[placeOfThey(source.text)];
  }

  /** Returns what a word gives to the marks of the model, such as ⟨end⟩. */
  marksOf(index) {
    return Math.max(0, 1 - this.shares[index].reduce((sum, { share }) => sum + share, 0));
  }

  /** Returns the share that `they` gives to a word. */
  shareOf(wanted) {
    return this.they.find(({ word }) => word === wanted)?.share ?? 0;
  }
}

const MAX_SENTENCES = 24; // More at once take a slow machine longer than a request may take.

/**
 * Requests the attention of one head in some sentences.
 * @param {KnownHead} known
 * @param {AbortSignal} signal
 * @param {string[]} texts By default the four of the opening.
 * @returns {Promise<Map<string, HeadReading>>} The readings by sentence.
 */
export async function readHead(known, signal, texts = FORMS.map(({ text }) => text)) {
  const readings = new Map();
  for (let start = 0; start < texts.length; start += MAX_SENTENCES) {
    const body = headBody(known, texts.slice(start, start + MAX_SENTENCES));
    const { items } = await post('attention', body, signal);
    for (const item of items) readings.set(item.source.text, new HeadReading(item));
  }
  return readings;
}

/** Returns the body of the request for the probabilities of the Portuguese words for `they`. */
export function pronounBody(text) {
  const probabilities = { top_k: 1, tokens: ['eles', 'elas'] };
  return { text, ...TRANSLATOR_HEAD.subject, probabilities, top_k: 1 };
}

/** Requests the probabilities of `eles` and `elas`; null if the translation does not say `eles`. */
export async function readPronoun(text, signal) {
  const { items } = await post('attention', pronounBody(text), signal);
  const [{ target, probabilities }] = items;
  const place = target.tokens.indexOf('▁eles');
  if (place < 0) return null;
  const [he, she] = probabilities.named.log_probs[place].map((log) => Math.exp(log ?? -Infinity));
  return { he, she };
}
