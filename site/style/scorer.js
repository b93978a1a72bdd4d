// Scores of the site's search: as in Sphinx, but a lesson comes before a page that only mentions a word.
const LESSON = 8;

var Scorer = {
  score: ([page, , , , score]) => score + (page.startsWith("lessons/") ? LESSON : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
