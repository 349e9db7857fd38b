// The served language pairs, and the menus of languages.

import { fillMenu } from '../common/dom.js';
import { pageLanguage, speaker } from '../common/strings.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);

/** The served languages, as GET /languages lists them. */
export class Languages {
  /** @param {Array<{code: string, name: string, targets: string[]}>} list */
  constructor(list) {
    this.list = list;
  }

  /** Returns a language's name in the language of the page. */
  name(code) {
    const served = this.list.find((language) => language.code === code)?.name;
    if (served !== undefined && pageLanguage() === 'en') return served;
    return nameIn(pageLanguage(), code) ?? served ?? code;
  }

  /** Reports whether a language can be translated. */
  isServed(code) {
    return this.list.some((language) => language.code === code);
  }

  /** Lists the targets of a source, without the source itself. */
  targets(source) {
    const language = this.list.find(({ code }) => code === source);
    return language ? language.targets.filter((code) => code !== source) : this.allTargets();
  }

  /** Lists every language that is the target of a pair. */
  allTargets() {
    const codes = this.list.flatMap(({ code, targets }) => targets.filter((t) => t !== code));
    return [...new Set(codes)].sort((a, b) => this.name(a).localeCompare(this.name(b)));
  }

  /** Returns a target for a source: the wanted one if the pair is served. */
  targetFor(source, wanted) {
    const targets = this.targets(source);
    return targets.includes(wanted) ? wanted : (targets[0] ?? wanted);
  }

  /** Reports whether the server translates a view's languages; a target of '' stands for any. */
  hasPair(source, target) {
    if (source !== 'auto' && !this.isServed(source)) return false;
    return target === '' || this.targets(source).includes(target);
  }

  /** Fills both menus for a view; `auto` tells which language was detected, if any. */
  render(sourceMenu, targetMenu, view, detected = '') {
    const auto = detected ? say('detected', { language: capital(this.name(detected)) }) : say('detect');
    const entry = (code) => [code, capital(this.name(code))];
    const sources = this.list.map(({ code }) => entry(code));
    const targets = this.targets(view.source).map(entry);
    fillMenu(sourceMenu, [['auto', auto], ...sources], view.source);
    fillMenu(targetMenu, targets.length ? targets : [[view.target, say('noLanguage')]], view.target);
  }
}

const capital = (name) => name[0].toUpperCase() + name.slice(1);

/** Returns a language's name in another language; null if the browser has none. */
function nameIn(language, code) {
  try {
    const names = new Intl.DisplayNames([language], { type: 'language', fallback: 'none' });
    return names.of(code) ?? null;
  } catch {
    return null; // The code is none of BCP 47.
  }
}
