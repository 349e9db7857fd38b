// The language of the page, and the texts of the page in that language.

import { kept } from './storage.js';

/**
 * The texts of one part of the page: for each language, each name and its text. `{name}` in a text
 * stands for a value, and `{name|one|more}` for a word that depends on whether the value is 1.
 * @typedef {{en: Object<string, string>, pt: Object<string, string>}} Texts
 */

export const LANGUAGES = Object.freeze({ en: 'English', pt: 'Português' });

const STORED = 'regard-language';

/** Returns the language of the page: the reader's choice, else the browser's language. */
export function pageLanguage() {
  const preferred = [kept(STORED), ...navigator.languages.map((code) => code.slice(0, 2))];
  return preferred.find((code) => code in LANGUAGES) ?? 'en';
}

/**
 * Returns the function that gives the texts of one part in the language of the page.
 * @param {Texts} texts
 * @returns {function(string, Object<string, string|number>=): string}
 */
export function speaker(texts) {
  const own = texts[pageLanguage()];
  const written = (value, one, more) => (one === undefined ? String(value) : value === 1 ? one : more);
  return (name, values = {}) =>
    own[name].replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, key, one, more) => written(values[key], one, more));
}
