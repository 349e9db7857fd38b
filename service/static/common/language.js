// The choice of the page's language, and the texts that stand in the HTML.

import { byId, renderRadios } from './dom.js';
import { keep } from './storage.js';
import { LANGUAGES, pageLanguage, speaker } from './strings.js';

const LANGUAGE = 'regard-language';
const VIEW = 'regard-view';

/** Attributes that name a text of a table, and the property or attribute that the text fills. */
const SAYING = {
  'data-say': null, // the content
  'data-say-label': 'aria-label',
  'data-say-title': 'title',
  'data-say-placeholder': 'placeholder',
  'data-say-role': 'aria-roledescription',
  'data-say-content': 'content',
};

/**
 * Fills the texts of the HTML in the language of the page.
 * @param {Object<string, Texts>} tables Tables by the name that precedes the
 *     dot in `data-say="table.name"`.
 */
export function sayStatic(tables) {
  document.documentElement.lang = pageLanguage() === 'pt' ? 'pt-BR' : 'en';
  for (const [attribute, filled] of Object.entries(SAYING)) {
    for (const node of document.querySelectorAll(`[${attribute}]`)) {
      const [table, name] = (node.getAttribute(attribute) ?? '').split('.');
      const text = speaker(tables[table])(name);
      if (filled === null) node.textContent = text;
      else node.setAttribute(filled, text);
    }
  }
}

/** The radio buttons of the languages. A choice loads the page again, with the same view. */
export class LanguageChoice {
  /** Returns the view to keep, as a fragment. */
  view = () => '';

  constructor() {
    const options = Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }));
    const root = byId('language');
    renderRadios(root, 'language', options, pageLanguage(), (code) => this.#choose(code));
    for (const input of root.querySelectorAll('input')) {
      input.parentElement?.setAttribute('lang', input.value);
    }
  }

  #choose(code) {
    if (!keep(LANGUAGE, code)) return; // The browser's language counts.
    sessionStorage.setItem(VIEW, this.view());
    location.reload();
  }
}

/** Returns the view that a choice of language has kept, and forgets it; null if there is none. */
export function keptView() {
  try {
    const fragment = sessionStorage.getItem(VIEW);
    sessionStorage.removeItem(VIEW);
    return fragment;
  } catch {
    return null;
  }
}
