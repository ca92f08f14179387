"""How the pages look: light and dark, on paper and on narrow screens. Colour never says what words or shapes do not."""

from __future__ import annotations

_LIGHT = """color-scheme: light; --ink: #1f2328; --quiet: #57606a; --paper: #fff; --panel: #f6f8fa; --rule: #d0d7de;
  --cause: #b3261e; --cause-soft: #fdecea; --suspect: #7d4e00; --suspect-soft: #fff4dc; --good: #1a6b34;
  --good-soft: #e6f4ea; --accent: #0b57a4; --accent-soft: #e3eefb;"""
_DARK = """color-scheme: dark; --ink: #e6e9ee; --quiet: #a0aab6; --paper: #0f1217; --panel: #181d25; --rule: #343c48;
  --cause: #ff9a91; --cause-soft: #3a1d1b; --suspect: #f2bd57; --suspect-soft: #33270f; --good: #74d392;
  --good-soft: #15301d; --accent: #86b8ff; --accent-soft: #17283f;"""

_REST = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem clamp(.9rem, 3vw, 2.5rem) 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: clamp(1.25rem, 1rem + 1.6vw, 1.75rem); line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; line-height: 1.35; margin: .35rem 0 .6rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 100ch; overflow-wrap: anywhere; }
ul { margin: .5rem 0; padding-left: 1.3rem; } li { overflow-wrap: anywhere; }
code, pre, .value { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .85rem; }
code { background: var(--panel); border-radius: .25rem; padding: .1em .3em; overflow-wrap: anywhere; }
pre { overflow-x: auto; background: var(--panel); border: 1px solid var(--rule); border-radius: .4rem;
  margin: .5rem 0; padding: .6rem .8rem; }
.wrap { white-space: pre-wrap; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); } .notes { font-size: .9rem; }
.kicker { color: var(--quiet); font-size: .8rem; letter-spacing: .06em; margin: 0 0 .25rem; text-transform:
  uppercase; }
.mark { font-weight: 700; white-space: nowrap; }
.added, .good { color: var(--good); } .removed, .bad { color: var(--cause); }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; font-size: .75rem; font-weight:
  600;
  line-height: 1.5; padding: 0 .55rem; white-space: nowrap; }
.badge.error { color: var(--cause); background: var(--cause-soft); }
.badge.warning { color: var(--suspect); background: var(--suspect-soft); }
.badge.info { color: var(--accent); background: var(--accent-soft); }
.badge.good { background: var(--good-soft); } .badge.bad { background: var(--cause-soft); }
article { background: var(--panel); border: 1px solid var(--rule); border-left: .35rem solid var(--quiet);
  border-radius: .4rem; margin: .9rem 0; padding: .9rem 1.1rem; }
article.error { border-left-color: var(--cause); } article.warning { border-left-color: var(--suspect); }
article.info { border-left-color: var(--accent); }
article pre, article code { background: var(--paper); }
.tags { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; margin: 0; }
.fix pre { border-left: .25rem solid var(--good); white-space: pre-wrap; overflow-wrap: anywhere; }
.fix .tags { margin-top: .8rem; }
.scroll { overflow-x: auto; margin: .4rem 0 1rem; }
table { border-collapse: collapse; width: 100%; }
caption { color: var(--quiet); font-size: .9rem; padding: .2rem 0; text-align: left; }
th, td { border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; padding: .3rem .9rem .3rem 0; text-align:
  left;
  vertical-align: top; }
thead th { color: var(--quiet); font-size: .8rem; font-weight: 600; }
tbody th { font-weight: 600; }
.ends td:not(:last-child), .ends th { overflow-wrap: normal; white-space: nowrap; }
article th:first-child { width: 36%; }
.changes { table-layout: fixed; } .changes th:first-child, .changes td:first-child { padding-right: 0; width:
  1.6rem; }
.changes th:nth-child(2) { width: 34%; }
.step { color: var(--quiet); font: .8rem system-ui, sans-serif; white-space: nowrap; }
.note { color: var(--quiet); font-size: .85rem; }
.changes .badge { font-size: .7rem; margin-left: .3rem; }
details { margin: .4rem 0; } summary { cursor: pointer; padding: .2rem 0; }
summary h3 { display: inline; } summary .quiet { font-size: .9rem; margin-left: .4rem; }
figure { margin: 1rem 0; } figcaption { color: var(--quiet); font-size: .9rem; margin: .3rem 0; }
svg { height: auto; max-width: 100%; }
svg text { fill: var(--ink); font: 600 13px system-ui, sans-serif; } svg .small { font-size: 11px; font-weight: 500; }
svg .tiny { font-size: 9px; font-weight: 500; }
svg .strong { font-weight: 700; } svg .faint { fill: var(--quiet); font-weight: 500; }
.sides { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.sides > div { border: 1px solid var(--rule); border-radius: .4rem; padding: .5rem; text-align: center; }
.sides h3 { margin: .2rem 0; } .sides svg { width: min(100%, 33rem); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; margin: .6rem 0; padding: 0;
  color: var(--quiet); font-size: .85rem; } .legend svg { vertical-align: middle; margin-right: .3rem; }
.node { fill: var(--paper); stroke: var(--ink); stroke-width: 1.6; } .nic { fill: var(--panel); }
.node.gone { stroke: var(--cause); stroke-dasharray: 4 3; } .node.moved { stroke: var(--cause); stroke-width: 3; }
.numa-name { fill: var(--quiet); paint-order: stroke; stroke: var(--paper); stroke-width: 5px; }
.numa { fill: none; stroke: var(--panel); stroke-width: 62; }
.sides.alone svg { width: min(100%, 27rem); } .sides.alone > div { border: 0; padding: 0; }
.link { fill: none; stroke: var(--quiet); } .link.nv { stroke: var(--good); }
.link.pxb { stroke-dasharray: 10 3; } .link.phb, .link.node-link { stroke: var(--suspect); stroke-dasharray: 5 4; }
.link.sys { stroke: var(--cause); stroke-dasharray: 2 4; }
.link.moved { stroke: var(--cause); stroke-width: 4; stroke-dasharray: 8 5; }
.pill { fill: var(--paper); stroke: var(--cause); stroke-width: 1.5; }
.matrix td, .matrix th { font-size: .78rem; overflow-wrap: normal; padding: .2rem .4rem; text-align: center;
  white-space: nowrap; }
.matrix tbody th { background: var(--paper); left: 0; position: sticky; text-align: left; }
.matrix .nv { color: var(--good); } .matrix .phb, .matrix .node-link { color: var(--suspect); }
.matrix .sys { color: var(--quiet); }
.matrix .changed { background: var(--cause-soft); color: var(--cause); font-weight: 700;
  outline: 2px solid var(--cause); outline-offset: -2px; }
.timeline svg { max-width: none; } .lane { stroke: var(--rule); } .column { stroke: var(--rule); stroke-dasharray: 1
  4; }
.first-bad { fill: var(--cause-soft); } .first-bad-line { stroke: var(--cause); stroke-width: 2; stroke-dasharray: 6
  3; }
.tick { fill: var(--accent-soft); stroke: var(--accent); stroke-width: 1.5; } svg .count { fill: var(--accent);
  font-size: 11px; }
.dot { stroke-width: 2; } .dot.good { fill: var(--good-soft); stroke: var(--good); }
.dot.bad { fill: var(--cause-soft); stroke: var(--cause); } .dot.none { fill: var(--paper); stroke: var(--quiet); }
.sign { fill: none; stroke-linecap: round; stroke-width: 2; } .sign.good { stroke: var(--good); }
.sign.bad { stroke: var(--cause); } svg .alarm { fill: var(--cause); font-size: 11px; }
.history td:nth-child(2), .history td:nth-child(1) { white-space: nowrap; } .history th:nth-child(4) { width: 46%; }
  .history ul { list-style: none; margin: 0; padding: 0; }
footer { border-top: 1px solid var(--rule); color: var(--quiet); font-size: .85rem; margin-top: 2.5rem; padding-top:
  .6rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media screen and (max-width: 44rem) {
  .wide thead { clip-path: inset(50%); height: 1px; overflow: hidden; position: absolute; white-space: nowrap;
    width: 1px; }
  .wide, .wide caption, .wide tbody, .wide tr, .wide td, .wide th { display: block; width: auto !important; }
  .wide tr { border-bottom: 1px solid var(--rule); padding: .5rem 0; }
  .wide td, .wide th { border: 0; padding: .05rem 0; white-space: normal !important; }
  .wide td[data-head]::before { color: var(--quiet); content: attr(data-head) " "; font: .8rem system-ui,
    sans-serif; }
  .wide td:empty { display: none; } .changes td:first-child { float: left; margin-right: .4rem; }
}
@media print {
  @page { margin: 14mm; }
  body { font-size: 10pt; max-width: none; padding: 0; } h1 { font-size: 15pt; } h2 { break-after: avoid; }
  article, tr, figure svg, .sides > div { break-inside: avoid; } .scroll { overflow: visible; }
  thead { display: table-header-group; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  svg, .timeline svg { max-width: 100%; } .badge, .matrix .changed { print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .matrix { break-inside: avoid; }
  .matrix td, .matrix th { font-size: 6.5pt; padding: .1rem .25rem; }
}
"""
STYLE = f":root {{ {_LIGHT} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}{_REST}"
