"use strict";
// Draws every figure from the JSON beside it, in the page's own colours, and again when the theme or the width changes.
(() => {
  const narrow = matchMedia("(max-width: 640px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const themed = (layout) => {
    const colours = getComputedStyle(document.documentElement);
    const colour = (name) => colours.getPropertyValue(name).trim();
    const result = structuredClone(layout);
    result.paper_bgcolor = result.plot_bgcolor = "rgba(0,0,0,0)";
    result.font = { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("--fg") };
    result.hoverlabel = { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--fg") } };
    for (const axis of [result.xaxis, result.yaxis]) {
      axis.gridcolor = colour("--grid");
      axis.linecolor = axis.zerolinecolor = colour("--line");
      axis.fixedrange = true; // a finger on the picture scrolls the page
      axis.tickfont = { color: colour("--muted") };
      if (axis.title) axis.title.font = { color: colour("--muted"), size: 12.5 };
    }
    return result;
  };

  // Names do not fit on a phone: there the points are numbered, and a list below says which is which.
  const fitted = (traces, layout) => traces.map((trace) => {
    if (narrow.matches && trace.meta && trace.meta.number) return { ...trace, text: [`<b>${trace.meta.number}</b>`] };
    if (trace.type === "bar" && trace.error_x) return { ...trace, error_x: { ...trace.error_x, color: layout.font.color } };
    return trace;
  });

  const draw = () => {
    for (const chart of document.querySelectorAll(".chart")) {
      const figure = JSON.parse(chart.nextElementSibling.textContent);
      const layout = themed(figure.layout);
      Plotly.react(chart, fitted(figure.data, layout), layout, { responsive: true, displayModeBar: false });
    }
  };

  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
})();
