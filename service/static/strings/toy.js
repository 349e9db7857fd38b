// The texts of the toy: attention by hand, with three words of four numbers.

/** @type {import('../common/strings.js').Texts} */
export const toy = {
  en: {
    title: 'Try it by hand: a toy with twelve numbers',
    lead: 'Here is attention without a trained model. Each word is a row of four numbers. Change a number, and the results change at once.',
    open: 'Open the toy',
    matrix: 'A: the words',
    matrixText:
      'The first number says how much a word has to do with sport. The other three stand for other things. The numbers are made up. At the start, “pool” and “badminton” have much to do with sport, and “beats” has little.',
    dimension: 'number {index}',
    sport: 'sport',
    cell: '{word}, number {index}',
    invalid: 'Write a number from −10 to 10, such as 0.5.',
    reset: 'Back to the first numbers',
    scores: 'How alike are two words? A · Aᵀ',
    scoresText:
      'Each row is compared with each row: multiply their numbers one by one, and add. A · Aᵀ is the short name for all these sums. Of rows of about the same size, those with a large sum are alike. For “{first}” and “{second}”: {sum} = {score}.',
    weights: 'Shares of each row: softmax',
    weightsText:
      'Softmax takes the number e = 2.718 to the power of each sum and divides by the total of the row. Any number above 1 would do; e is the usual one. The shares then add up to 1, and sums that differ little give shares that differ little. “{first}” takes {second} from “{secondWord}” and {third} from “{thirdWord}”.',
    output: 'The words, mixed: shares × A',
    outputText:
      'Each new row is a mix of all rows of A, by these shares. That is attention. The number of “{first}” for {number} went from {before} to {after}: a mix lies between the numbers of the three words.',
    rest: 'With the first numbers, all shares are nearly equal, so the rows become alike. Larger numbers make the shares differ more. In the toy, one row plays three parts: it asks, it is compared, and it is mixed. A real model has three tables of learned numbers, W_Q, W_K and W_V, which make three rows of it: query, key and value. The story below shows them.',
  },
  pt: {
    title: 'Faça à mão: um brinquedo com doze números',
    lead: 'Aqui está a atenção sem um modelo treinado. Cada palavra é uma linha de quatro números. Mude um número, e os resultados mudam na hora.',
    open: 'Abrir o brinquedo',
    matrix: 'A: as palavras',
    matrixText:
      'O primeiro número diz quanto uma palavra tem a ver com esporte. Os outros três são para outras coisas. Os números são inventados. No começo, “pool” e “badminton” têm muito a ver com esporte, e “beats” tem pouco.',
    dimension: 'número {index}',
    sport: 'esporte',
    cell: '{word}, número {index}',
    invalid: 'Escreva um número de −10 a 10, como 0,5.',
    reset: 'Voltar aos primeiros números',
    scores: 'Duas palavras são parecidas? A · Aᵀ',
    scoresText:
      'Cada linha é comparada com cada linha: multiplique os números um a um, e some. A · Aᵀ é o nome curto de todas essas somas. Entre linhas de tamanho parecido, as de soma grande são parecidas. Para “{first}” e “{second}”: {sum} = {score}.',
    weights: 'Partes de cada linha: softmax',
    weightsText:
      'A softmax eleva o número e = 2,718 a cada soma e divide pelo total da linha. Qualquer número acima de 1 serviria; e é o usual. As partes então somam 1, e somas pouco diferentes dão partes pouco diferentes. “{first}” tira {second} de “{secondWord}” e {third} de “{thirdWord}”.',
    output: 'As palavras misturadas: partes × A',
    outputText:
      'Cada linha nova é uma mistura de todas as linhas de A, conforme essas partes. Isto é atenção. O número de “{first}” para {number} foi de {before} para {after}: uma mistura fica entre os números das três palavras.',
    rest: 'Com os primeiros números, todas as partes são quase iguais, então as linhas ficam parecidas. Com números maiores, as partes ficam mais diferentes. No brinquedo, uma linha faz três papéis: pergunta, é comparada e é misturada. Um modelo de verdade tem três tabelas de números aprendidos, W_Q, W_K e W_V, que fazem dela três linhas: consulta, chave e valor. A história abaixo mostra isso.',
  },
};
