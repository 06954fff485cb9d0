#pragma once

#include <string_view>

namespace parascale::evidence {

/// The style sheet of `report.html`.
inline constexpr std::string_view kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b2330;--muted:#667085;--line:#e3e6ec;--dots:.45;--grid:#eceff4;--hover:rgba(60,80,120,.09);
--c1:#2f6fde;--c2:#d9480f;--c3:#7b4fc9;--c4:#0b8a6b;--good:#0b7a4b;--good-bg:#e0f5ea;--bad:#b42318;--bad-bg:#fde7e4;--warn:#8a5300;--warn-bg:#fff1d6}
@media (prefers-color-scheme:dark){:root{--page:#10141b;--card:#181e28;--ink:#e6eaf2;--muted:#94a0b4;--line:#2a3341;--dots:.7;--grid:#232b38;--hover:rgba(160,185,230,.12);
--c1:#6ea3ff;--c2:#ff9257;--c3:#b794f6;--c4:#41c9a2;--good:#5bd69a;--good-bg:#12352a;--bad:#ff9188;--bad-bg:#44201e;--warn:#ffc466;--warn-bg:#3d2e12}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
main{max-width:1200px;margin:0 auto;padding:32px 24px 48px}
header{margin-bottom:22px}
.eyebrow{color:var(--muted);font-size:12px;letter-spacing:.06em;text-transform:uppercase}
h1{font-size:28px;line-height:1.2;margin:2px 0 8px;overflow-wrap:anywhere}
h2{font-size:17px;margin:36px 0 12px}
.sub{color:var(--muted)}
.badge{display:inline-block;border-radius:999px;padding:1px 10px;font-size:12px;font-weight:600;margin:0 6px 6px 0;border:1px solid var(--line)}
.good{color:var(--good);background:var(--good-bg);border-color:transparent}
.bad{color:var(--bad);background:var(--bad-bg);border-color:transparent}
.warn{color:var(--warn);background:var(--warn-bg);border-color:transparent}
.notice{border-radius:10px;padding:12px 16px;margin:0 0 18px;font-weight:600}
.notice span{font-weight:400}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(142px,1fr));gap:12px}
.figure,.panel{background:var(--card);border:1px solid var(--line);border-radius:10px}
.figure{padding:12px 14px}
.figure b{display:block;font-size:23px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.figure i{font-style:normal;font-size:13px;font-weight:400;color:var(--muted)}
.figure small,.figure span{color:var(--muted);font-size:12px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(500px,100%),1fr));gap:14px}
.panel{padding:10px 8px 4px;overflow:hidden}
.panel.t{padding:0;overflow-x:auto}
.chart{display:block;width:100%;height:auto}
.chart text{font-family:inherit;fill:var(--ink)}
.ct{font-size:14px;font-weight:600}.chart .cu{font-size:11px;font-weight:400;fill:var(--muted)}
.chart .cl{font-size:11px;fill:var(--muted)}.chart .cm{font-size:10.5px;fill:var(--muted);paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
.cg{stroke:var(--grid)}.ca{stroke:var(--muted);stroke-opacity:.6;fill:none}.cr{stroke:var(--muted);stroke-dasharray:4 3;fill:none}
.kl,.kf,.kd{fill:none;stroke-linejoin:round;stroke-linecap:round}
.kl{stroke-width:2}.kf{stroke-width:1;stroke-opacity:.32}.kd{stroke-width:2.4;stroke-opacity:var(--dots)}.kw{stroke-width:3}
.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}
.p1{fill:var(--c1)}.p2{fill:var(--c2)}.p3{fill:var(--c3)}.p4{fill:var(--c4)}.b1{fill:var(--c1);fill-opacity:.75}.b1:hover{fill-opacity:1}
.h{fill:transparent}.h:hover{fill:var(--hover)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:7px 14px;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th{color:var(--muted);font-size:12px;font-weight:600;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap}
td.t{white-space:nowrap}td.w{overflow-wrap:anywhere}
tr.best td{background:var(--good-bg)}
code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:14px;align-items:start}
details{margin-top:10px}summary{cursor:pointer;color:var(--muted);padding:4px 2px}
.none{color:var(--muted);margin:6px 0 0}
footer{margin-top:40px;color:var(--muted);font-size:12.5px;border-top:1px solid var(--line);padding-top:14px}
a{color:var(--c1)}
@media print{body{background:#fff}.panel,.figure{break-inside:avoid}}
)css";

}  // namespace parascale::evidence
