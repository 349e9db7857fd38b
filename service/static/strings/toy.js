// The texts of the toy: attention by hand, with three words of four numbers.

/** @type {import('../common/strings.js').Texts} */
export const toy = {
  en: {
    title: 'Try it by hand: a toy with twelve numbers',
    lead: 'Here is attention without a trained model. Each word is a row of four numbers. Change a number, and everything below it changes.',
    matrix: 'A: the words',
    matrixText:
      'The first number says how much a word has to do with sport. The other three stand for other things. The numbers are made up. At the start, “pool” and “badminton” have much to do with sport, and “beats” has little.',
    dimension: 'number {index}',
    sport: 'sport',
    cell: '{word}, number {index}',
    invalid: 'Write a number from −10 to 10, such as 0.5.',
    reset: 'Back to the first numbers',
    scores: 'A · Aᵀ: how alike are two words?',
    scoresText:
      'The ᵀ turns the table on its side, so that each row meets each row. Multiply the numbers of two rows one by one, and add. A large sum means that the words are alike. For “{first}” and “{second}”: {sum} = {score}.',
    weights: 'softmax: shares of each row',
    weightsText:
      'Softmax takes 2.718 to the power of each sum and divides by the total of the row. The shares then add up to 1, and sums that differ little give shares that differ little. “{first}” takes {second} from “{secondWord}” and {third} from “{thirdWord}”.',
    output: 'Shares × A: the words, mixed',
    outputText:
      'Each new row is a mix of all rows of A, by these shares. That is attention: the row of “{first}” now tells something of its neighbours, too. Its number for {number} went from {before} to {after}.',
    rest: 'In the toy all shares are nearly equal, so the rows become alike. Make one word’s numbers larger, such as 3, and the shares differ more. A real model learns three tables, W_Q, W_K and W_V, so that a word takes most from the words that help it. The story below has them.',
  },
  pt: {
    title: 'Faça à mão: um brinquedo com doze números',
    lead: 'Aqui está a atenção sem um modelo treinado. Cada palavra é uma linha de quatro números. Mude um número, e tudo abaixo muda.',
    matrix: 'A: as palavras',
    matrixText:
      'O primeiro número diz quanto uma palavra tem a ver com esporte. Os outros três são para outras coisas. Os números são inventados. No começo, “pool” e “badminton” têm muito a ver com esporte, e “beats” tem pouco.',
    dimension: 'número {index}',
    sport: 'esporte',
    cell: '{word}, número {index}',
    invalid: 'Escreva um número de −10 a 10, como 0,5.',
    reset: 'Voltar aos primeiros números',
    scores: 'A · Aᵀ: duas palavras são parecidas?',
    scoresText:
      'O ᵀ vira a tabela de lado, para que cada linha encontre cada linha. Multiplique os números de duas linhas um a um, e some. Uma soma grande quer dizer que as palavras são parecidas. Para “{first}” e “{second}”: {sum} = {score}.',
    weights: 'softmax: partes de cada linha',
    weightsText:
      'A softmax eleva 2,718 a cada soma e divide pelo total da linha. As partes então somam 1, e somas pouco diferentes dão partes pouco diferentes. “{first}” tira {second} de “{secondWord}” e {third} de “{thirdWord}”.',
    output: 'Partes × A: as palavras misturadas',
    outputText:
      'Cada linha nova é uma mistura de todas as linhas de A, conforme essas partes. Isto é atenção: a linha de “{first}” agora diz algo das vizinhas também. O seu número de {number} foi de {before} para {after}.',
    rest: 'No brinquedo todas as partes são quase iguais, então as linhas ficam parecidas. Aumente os números de uma palavra, por exemplo para 3, e as partes diferem mais. Um modelo de verdade aprende três tabelas, W_Q, W_K e W_V, para que uma palavra tire mais das palavras que a ajudam. Elas estão na história abaixo.',
  },
};
