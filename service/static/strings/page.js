// The texts of the frame of the page: header, footer and commands.

/** @type {import('../common/strings.js').Texts} */
export const page = {
  en: {
    title: 'Regard · translate, and look inside',
    about: 'A translator that shows where it looks.',
    skip: 'Skip to the text',
    motto: 'Translate, and look inside.',
    nav: 'Page',
    link: 'Copy link',
    colours: 'Colours',
    auto: 'Auto',
    light: 'Light',
    dark: 'Dark',
    language: 'Language of the page',
    asCurl: 'As a curl command',
    command: 'Command',
    copyCommand: 'Copy command',
    footer: 'Everything on this page comes from this server, and your text goes nowhere else.',
  },
  pt: {
    title: 'Regard · traduza e veja por dentro',
    about: 'Um tradutor que mostra para onde olha.',
    skip: 'Ir para o texto',
    motto: 'Traduza e veja por dentro.',
    nav: 'Página',
    link: 'Copiar link',
    colours: 'Cores',
    auto: 'Automático',
    light: 'Claro',
    dark: 'Escuro',
    language: 'Idioma da página',
    asCurl: 'Como comando curl',
    command: 'Comando',
    copyCommand: 'Copiar comando',
    footer: 'Tudo nesta página vem deste servidor, e seu texto não vai para nenhum outro lugar.',
  },
};
