// The texts of the likely next tokens.

/** @type {import('../common/strings.js').Texts} */
export const likely = {
  en: {
    heading: 'What could have come instead?',
    title: 'What could have come instead of “{word}”?',
    before: 'After “{words}” the model gives every token that could come next a probability.',
    beforeFirst: 'At the start the model gives every token that could come first a probability.',
    table: 'The likeliest next tokens',
    token: 'Token',
    probability: 'Probability',
    rank: 'Rank',
    written: '(written)',
    sure: 'The model was almost certain here: [[entropy]] {entropy}.',
    choices:
      '[[entropy|Entropy]] {entropy}: the model was as unsure as if it chose among {count} equally likely tokens.',
    candidates: 'It chose among {count} tokens that its [[shortlist]] holds for this sentence.',
    why: 'Why not another word?',
    whyHint: 'A word, such as {word}',
    ask: 'Compare',
    named: '“{token}” has rank {rank} and probability {probability}.',
    firstToken: 'The model would write “{word}” in several tokens; “{token}” is the first.',
    noCandidate: 'It is not in the shortlist of this sentence, so the model could not choose it.',
    unchosen: '“{token}” cannot be chosen here.',
    honest:
      'The probability says how the model ranks the tokens after all its layers. It does not say which word of the text was the reason.',
  },
  pt: {
    heading: 'O que poderia ter vindo em vez disso?',
    title: 'O que poderia ter vindo em vez de “{word}”?',
    before: 'Depois de “{words}”, o modelo dá a cada token que poderia vir uma probabilidade.',
    beforeFirst: 'No começo, o modelo dá a cada token que poderia vir primeiro uma probabilidade.',
    table: 'Os próximos tokens mais prováveis',
    token: 'Token',
    probability: 'Probabilidade',
    rank: 'Posição',
    written: '(escrito)',
    sure: 'O modelo tinha quase certeza aqui: [[entropy]] {entropy}.',
    choices:
      '[[entropy|Entropia]] {entropy}: o modelo estava tão em dúvida como se escolhesse entre {count} tokens igualmente prováveis.',
    candidates: 'Ele escolheu entre {count} tokens da [[shortlist]] desta frase.',
    why: 'Por que não outra palavra?',
    whyHint: 'Uma palavra, como {word}',
    ask: 'Comparar',
    named: '“{token}” tem a posição {rank} e a probabilidade {probability}.',
    firstToken: 'O modelo escreveria “{word}” em vários tokens; “{token}” é o primeiro.',
    noCandidate: 'Ele não está na lista curta desta frase, então o modelo não poderia escolhê-lo.',
    unchosen: '“{token}” não pode ser escolhido aqui.',
    honest:
      'A probabilidade diz como o modelo ordena os tokens depois de todas as camadas. Ela não diz qual palavra do texto foi a razão.',
  },
};
