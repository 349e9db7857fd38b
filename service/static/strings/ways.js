// The texts of the choice between the two ways into the page.

/** @type {import('../common/strings.js').Texts} */
export const ways = {
  en: {
    legend: 'Way into the page',
    translate: 'Translate',
    translateTitle: 'Translate a text, and see where the model looks',
    understand: 'Understand',
    understandTitle: 'Learn how attention works, with the numbers of this server',
  },
  pt: {
    legend: 'Entrada da página',
    translate: 'Traduzir',
    translateTitle: 'Traduza um texto e veja para onde o modelo olha',
    understand: 'Entender',
    understandTitle: 'Aprenda como funciona a atenção, com os números deste servidor',
  },
};
