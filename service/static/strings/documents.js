// The texts of the part that translates files.

/** @type {import('../common/strings.js').Texts} */
export const documents = {
  en: {
    section: 'Documents',
    source: 'From',
    target: 'to',
    drop: 'Drop a file here, or choose one',
    hint: 'The translation keeps the format of the file. The server deletes both after the download.',
    off: 'This server does not translate documents. Its operator allows that with REGARD_FILES=true.',
    progress: 'Progress of the document',
    sending: 'Sending “{name}” …',
    translating: 'Translating “{name}” …',
    left: 'Translating “{name}”: about {seconds} s left',
    done: '“{name}” is translated.',
    download: 'Download {name}',
  },
  pt: {
    section: 'Documentos',
    source: 'De',
    target: 'para',
    drop: 'Solte um arquivo aqui ou escolha um',
    hint: 'A tradução mantém o formato do arquivo. O servidor apaga os dois depois do download.',
    off: 'Este servidor não traduz documentos. Quem o opera pode permitir isso com REGARD_FILES=true.',
    progress: 'Andamento do documento',
    sending: 'Enviando “{name}” …',
    translating: 'Traduzindo “{name}” …',
    left: 'Traduzindo “{name}”: faltam cerca de {seconds} s',
    done: '“{name}” está traduzido.',
    download: 'Baixar {name}',
  },
};
