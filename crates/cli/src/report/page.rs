//! The page: one file that needs nothing else, neither a server nor a network. `page.js`, which is in it, draws the
//! curves. Text from files is escaped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};

use super::chart::Chart;
use super::curve::{Curve, Point};
use super::data::Table;
use super::figures::table;
use super::run::Run;

/// The most spans of all curves of a page, which keep it below some megabytes, however many runs there are.
const SPANS: usize = 48 << 10;

/// The fewest spans of a curve that is made shorter.
const LEAST: usize = 48;

/// Forbids the browser to load anything from elsewhere, whatever the page holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// Returns the page of these runs.
pub(super) fn page(mut runs: Vec<Run>) -> String {
    shrink(&mut runs);
    let title = match &runs[..] {
        [run] => run.figures.run.clone(),
        runs => format!("{} runs", runs.len()),
    };
    let charts = charts(&runs);
    let mut html = head(&title);
    figures(&mut html, &runs);
    legend(&mut html, &runs);
    html.push_str(
        "<noscript><p>A script in this page draws the curves, and none is run here.</p></noscript>\n<main>\n",
    );
    if charts.is_empty() {
        html.push_str("<p>Nothing is logged yet.</p>\n");
    }
    for (number, shown) in charts.iter().enumerate() {
        shown.card(&mut html, number);
    }
    html.push_str("</main>\n");
    samples(&mut html, &runs);
    differences(&mut html, &runs);
    configs(&mut html, &runs);
    let data = data(&runs, &charts).to_string().replace('<', "\\u003c");
    // Writing to a `String` never fails.
    let _ = write!(
        html,
        "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{}</script>\n",
        include_str!("page.js")
    );
    html.push_str("</body>\n</html>\n");
    html
}

/// Returns a page of tables, the first of which has the page's title.
pub(super) fn of_tables(tables: &[Table]) -> String {
    let mut html = tables.first().map_or_else(String::new, |first| head(&first.title));
    for (nth, table) in tables.iter().enumerate() {
        if nth > 0 {
            // Writing to a `String` never fails.
            let _ = writeln!(html, "<h2>{}</h2>", escaped(&table.title));
        }
        push_table(&mut html, "", &table.rows, |_, _| None);
    }
    html.push_str("</body>\n</html>\n");
    html
}

/// A page up to its title.
fn head(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        include_str!("page.css")
    )
}

/// Shortens the curves if there are very many.
fn shrink(runs: &mut [Run]) {
    let curves = || runs.iter().flat_map(|run| run.curves.values().flatten());
    let most = (SPANS / curves().count().max(1)).max(LEAST);
    if curves().map(|curve| curve.len()).sum::<usize>() > SPANS {
        let all = runs.iter_mut().flat_map(|run| run.curves.values_mut().flatten());
        all.for_each(|curve| curve.shrink(most));
    }
}

/// A chart with the curves of all runs.
struct Shown<'a> {
    chart: &'a Chart,
    curves: Vec<Drawn>,
}

/// A curve to draw.
struct Drawn {
    /// The number of its run.
    run: usize,
    is_dashed: bool,
    points: Vec<Point>,
    /// Its mean, if it is noisy.
    smooth: Vec<Point>,
}

fn charts(runs: &[Run]) -> Vec<Shown<'_>> {
    let charts: BTreeSet<&Chart> = runs.iter().flat_map(|run| run.curves.keys()).collect();
    let shown = |chart| {
        let pairs =
            runs.iter().enumerate().filter_map(|(number, run)| Some((number, run.curves.get(chart)?)));
        let of = |(run, [first, second]): (usize, &[Curve; 2])| {
            let [is_noisy, is_second_noisy] = Chart::is_noisy(chart);
            [(first, false, is_noisy), (second, true, is_second_noisy)].map(|(curve, is_dashed, is_noisy)| {
                let smooth = if is_noisy { curve.smooth() } else { Vec::new() };
                Drawn { run, is_dashed, points: curve.points(), smooth }
            })
        };
        let curves: Vec<Drawn> = pairs.flat_map(of).filter(|curve| !curve.points.is_empty()).collect();
        Shown { chart, curves }
    };
    charts.into_iter().map(shown).collect()
}

impl Shown<'_> {
    fn card(&self, html: &mut String, number: usize) {
        let class = if number == 0 { " class=\"wide\"" } else { "" };
        let title = escaped(&self.chart.title());
        let [solid, dashed] = self.chart.labels();
        let mut key = String::new();
        let is_there = |is_dashed| self.curves.iter().any(|curve| curve.is_dashed == is_dashed);
        for (label, is_dashed, class) in [(solid, false, "solid"), (dashed, true, "dashes")] {
            if !label.is_empty() && is_there(is_dashed) {
                let _ = write!(key, "<small><i class=\"{class}\"></i>{label}</small>");
            }
        }
        let _ = writeln!(
            html,
            "<figure{class}><figcaption>{title}{key}</figcaption>\
             <svg role=\"img\" aria-label=\"{title}\" data-chart=\"{number}\"></svg></figure>"
        );
    }

    fn data(&self) -> Value {
        let labels = self.chart.labels();
        let curve = |curve: &Drawn| {
            json!({
                "run": curve.run,
                "dashed": curve.is_dashed,
                "label": labels[usize::from(curve.is_dashed)],
                "points": points(&curve.points),
                "smooth": points(&curve.smooth),
            })
        };
        let kind = self.chart.kind();
        let most =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.y)).fold(0.0, f64::max);
        let unit = kind.unit(most);
        json!({
            "unit": unit.name,
            "one": unit.one,
            "zero": kind.begins_at_zero(),
            "curves": self.curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}

/// Points as pairs, with no more digits than a picture can show.
fn points(points: &[Point]) -> Vec<(u64, f64)> {
    let rounded = |y: f64| format!("{y:.4e}").parse().unwrap_or(y);
    points.iter().map(|point| (point.x, rounded(point.y))).collect()
}

fn data(runs: &[Run], charts: &[Shown<'_>]) -> Value {
    let run = |(number, run): (usize, &Run)| json!({ "name": run.figures.run, "hue": hue(number) });
    json!({
        "runs": runs.iter().enumerate().map(run).collect::<Vec<_>>(),
        "charts": charts.iter().map(Shown::data).collect::<Vec<_>>(),
    })
}

fn figures(html: &mut String, runs: &[Run]) {
    let rows = table(&runs.iter().map(|run| &run.figures).collect::<Vec<_>>());
    push_table(html, "", &rows, |row, column| row.checked_sub(1).filter(|_| column == 0));
    for (number, run) in runs.iter().enumerate() {
        if let Some(ledger) = &run.figures.ledger {
            for rows in [ledger.rows(), ledger.rows_by_value()] {
                push_table(html, "", &rows, |row, column| (row + column == 0).then_some(number));
            }
        }
    }
}

/// A table whose first row and column are heads, unless it is empty. `run` says whose color a cell of a row and a column
/// has.
fn push_table(
    html: &mut String,
    class: &str,
    rows: &[Vec<String>],
    run: impl Fn(usize, usize) -> Option<usize>,
) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(html, "<div class=\"scroll\"><table class=\"{class}\">");
    for (number, row) in rows.iter().enumerate() {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let tag = if number == 0 || column == 0 { "th" } else { "td" };
            let swatch = run(number, column).map_or_else(String::new, swatch);
            let _ = write!(html, "<{tag}>{swatch}{}</{tag}>", escaped(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}

fn swatch(run: usize) -> String {
    format!("<i class=\"swatch\" style=\"--h:{}\"></i>", hue(run))
}

/// The name of a run behind its color.
fn named(number: usize, run: &Run) -> String {
    swatch(number) + &escaped(&run.figures.run)
}

/// The hue of a run: each is the golden angle from the one before, so that all are far apart.
fn hue(run: usize) -> u32 {
    (215.0 + 137.508 * run as f64) as u32 % 360
}

/// The controls: the runs with their colors, and how curves are shown.
fn legend(html: &mut String, runs: &[Run]) {
    html.push_str("<nav>\n");
    if runs.len() > 1 {
        for (number, run) in runs.iter().enumerate() {
            let name = named(number, run);
            let _ = writeln!(
                html,
                "<label><input type=\"checkbox\" checked data-run=\"{number}\">{name}</label>"
            );
        }
    }
    html.push_str(
        "<label><input type=\"checkbox\" id=\"smooth\" checked>smooth</label>\n\
         <label><input type=\"checkbox\" id=\"log-steps\">log steps</label>\n\
         <label><input type=\"checkbox\" id=\"log-values\">log values</label>\n\
         <button id=\"reset\" hidden>All steps</button>\n<small>Drag over steps to see them closer.</small>\n</nav>\n",
    );
}

fn samples(html: &mut String, runs: &[Run]) {
    if runs.iter().all(|run| run.samples.is_empty()) {
        return;
    }
    html.push_str("<h2>Samples</h2>\n");
    for (number, run) in runs.iter().enumerate() {
        for sample in &run.samples {
            let (prompt, text) = (escaped(&sample.prompt), escaped(&sample.text));
            let name = named(number, run);
            let _ = writeln!(
                html,
                "<article><h3>{name}, after step {}</h3><pre><b>{prompt}</b>{text}</pre></article>",
                sample.step
            );
        }
    }
}

/// The keys of the configs in which the runs differ.
fn differences(html: &mut String, runs: &[Run]) {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        flat("", &toml::Value::Table(run.config.clone()), &mut |key, value| {
            let values = keys.entry(key).or_default();
            values.resize(number, String::new());
            values.push(value);
        });
    }
    keys.values_mut().for_each(|values| values.resize(runs.len(), String::new()));
    keys.retain(|key, values| key != "train.out" && values.iter().any(|value| *value != values[0]));
    if keys.is_empty() {
        return;
    }
    html.push_str("<h2>How the configs differ</h2>\n");
    let names = runs.iter().map(|run| run.figures.run.clone());
    let head = std::iter::once("key".to_owned()).chain(names).collect();
    let body = keys.into_iter().map(|(key, values)| std::iter::once(key).chain(values).collect());
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(body).collect();
    push_table(html, "keys", &rows, |row, column| column.checked_sub(1).filter(|_| row == 0));
}

/// Visits the values of a config by their dotted keys.
fn flat(key: &str, value: &toml::Value, visit: &mut impl FnMut(String, String)) {
    let under = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(name, value)| flat(&under(name), value, visit)),
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            values.iter().enumerate().for_each(|(at, value)| flat(&under(&at.to_string()), value, visit));
        }
        value => visit(key.to_owned(), value.to_string()),
    }
}

fn configs(html: &mut String, runs: &[Run]) {
    html.push_str("<h2>Configs</h2>\n");
    for (number, run) in runs.iter().enumerate() {
        // A part of a table can always be written.
        let toml = toml::to_string_pretty(&run.config).unwrap_or_default();
        let open = if runs.len() == 1 { " open" } else { "" };
        let _ = writeln!(html, "<details{open}><summary>{}</summary>", named(number, run));
        for (step, setting) in &run.settings {
            let _ = writeln!(html, "<p>from step {step} on: <code>{}</code></p>", escaped(setting));
        }
        let _ = writeln!(html, "<pre>{}</pre></details>", escaped(&toml));
    }
}

/// Text as HTML shows it, also within the quotes of an attribute.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}
