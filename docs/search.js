// Order of the results of the search, read by Sphinx (html_search_scorer): guides before reference, both before
// decisions and changes. A word is found in the heading of a page, or in its text.
var Scorer = {
  score: ([page, , , , score]) =>
    /^(guides|cookbook)\//.test(page) ? score + 4
    : /^reference\//.test(page) ? score - 4
    : /^(decisions\/|changelog)/.test(page) ? score - 10
    : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
