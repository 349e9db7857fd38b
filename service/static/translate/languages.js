// The served language pairs, and the menus of languages.

import { element } from '../common/dom.js';

/** The served languages, as GET /languages lists them. */
export class Languages {
  /** @param {Array<{code: string, name: string, targets: string[]}>} list */
  constructor(list) {
    this.list = list;
  }

  /** Returns a language's name. */
  name(code) {
    return this.list.find((language) => language.code === code)?.name ?? code;
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

  /** Fills both menus for a view. */
  render(sourceMenu, targetMenu, view) {
    const sources = this.list.map(({ code }) => [code, this.name(code)]);
    const targets = this.targets(view.source).map((code) => [code, this.name(code)]);
    fillMenu(sourceMenu, [['auto', 'Detect language'], ...sources], view.source);
    fillMenu(targetMenu, targets, view.target);
  }
}

/** Fills a menu with [value, name] and chooses one of them. */
export function fillMenu(menu, entries, chosen) {
  const key = JSON.stringify(entries);
  if (menu.dataset.entries !== key) {
    menu.dataset.entries = key;
    menu.replaceChildren(
      ...entries.map(([value, name]) => element('option', { value, text: name })),
    );
  }
  menu.value = chosen;
}
