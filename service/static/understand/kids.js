// The sentence of the kids and the lions in its four forms, and the two heads that read it.

import { post } from '../common/api.js';

const DECIMALS = 5;

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
export function sentenceOf({ swapped, turned }) {
  const [scared, feared] = swapped ? ['lions', 'kids'] : ['kids', 'lions'];
  const active = `The ${feared} scared the ${scared}`;
  const passive = `The ${scared} were scared of the ${feared}`;
  const [said, other] = turned ? [active, passive] : [passive, active];
  const first = turned ? feared : scared;
  return { text: `${said}, so they left right away.`, other, scared, first };
}

/** The four forms: as it stands, swapped, turned, and both. */
export const FORMS = Object.freeze(
  [
    { swapped: false, turned: false },
    { swapped: true, turned: false },
    { swapped: false, turned: true },
    { swapped: true, turned: true },
  ].map((form) => ({ ...form, ...sentenceOf(form) })),
);

/** Returns the words of a sentence, and the punctuation and spaces between them. */
export const piecesOf = (text) => text.match(/\w+|[^\w\s]|\s+/g);

/** Returns the body of the request for one head's attention in all four forms. */
export function headBody({ subject, layer, head }) {
  return {
    text: FORMS.map(({ text }) => text),
    ...subject,
    kinds: ['encoder'],
    layers: [layer],
    heads: [head],
    reduce: 'none',
    level: 'word',
    decimals: DECIMALS,
  };
}

/** Requests the attention of one head; returns for each text the shares of `they` by word. */
export async function readHead(known, signal) {
  const { items } = await post('attention', headBody(known), signal);
  return new Map(items.map((item) => [item.source.text, sharesOf(item)]));
}

/** Returns the shares that `they` gives to the words, largest first. */
function sharesOf({ source, attentions }) {
  const words = source.tokens.map((token) => token.replace(/^▁/, '').toLowerCase());
  const row = attentions[0].data[0][0][words.indexOf('they')];
  return row
    .map((share, index) => ({ word: words[index], share }))
    .filter((_, index) => !source.special[index])
    .sort((a, b) => b.share - a.share);
}

/** Returns the share of a word. */
export const shareOf = (shares, wanted) => shares.find(({ word }) => word === wanted)?.share ?? 0;

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
