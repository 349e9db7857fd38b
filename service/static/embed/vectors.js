// Sentences and their vectors: splitting a text, similarity, and the shares of tokens.

import { dot } from '../common/matrix.js';
import { pageLanguage } from '../common/strings.js';

const SAME = 1e-3; // Largest difference, as a share of the length, that rounding explains.

/** Splits a text into its lines; a text of one line is split into sentences. */
export function sentencesOf(text) {
  const lines = text.split('\n').map((line) => line.trim());
  const filled = lines.filter((line) => line !== '');
  return filled.length > 1 ? filled : splitLine(filled[0] ?? '');
}

function splitLine(line) {
  const segmenter = new Intl.Segmenter(pageLanguage(), { granularity: 'sentence' });
  const found = [...segmenter.segment(line)].map(({ segment }) => segment.trim());
  return found.filter((sentence) => sentence !== '');
}

/** Returns the cosine of two vectors. */
export const cosine = (a, b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

/**
 * Divides a pooled vector among its tokens.
 * @param {number[][]} tokens The vector of each token.
 * @param {number[]} pooled The vector of the text, before it is scaled to length 1.
 * @returns {number[]|null} Shares that add up to 1; null if the vector is not the tokens' mean.
 */
export function sharesOf(tokens, pooled) {
  const length = dot(pooled, pooled);
  const mean = pooled.map((_, d) => tokens.reduce((sum, token) => sum + token[d], 0) / tokens.length);
  const difference = mean.map((value, d) => value - pooled[d]);
  if (dot(difference, difference) > SAME ** 2 * length) return null;
  return tokens.map((token) => dot(token, pooled) / (tokens.length * length));
}
