//! Tables of figures, printed as text or as JSON.

use std::fmt::Write as _;

/// The medians of one benchmark. `bench/report.py` renders them in Markdown.
#[derive(Debug)]
pub struct Table {
    /// The name of the benchmark.
    pub title: String,
    /// The unit of the columns, except those with ratios.
    pub unit: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// A name, and a figure for each column that applies.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Promised ratios: a name, the promised minimum, and the measured value.
    pub promises: Vec<(String, f64, f64)>,
}

impl Table {
    /// Prints the table, or JSON.
    pub fn print(&self, json: bool) {
        if json {
            println!("{}", self.to_json());
        } else {
            print!("{}", self.to_text());
        }
    }

    fn to_text(&self) -> String {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut text = format!("{} ({})\n{:width$}", self.title, self.unit, "");
        self.columns.iter().for_each(|name| write!(text, "  {name:>12}").expect("written"));
        for (name, cells) in &self.rows {
            write!(text, "\n{name:width$}").expect("written");
            for (cell, column) in cells.iter().zip(&self.columns) {
                let width = column.chars().count().max(12);
                write!(text, "  {:>width$}", cell.map_or("–".into(), number)).expect("written");
            }
        }
        for (name, minimum, measured) in &self.promises {
            write!(text, "\n{name}: {measured:.2} ×, wanted ≥ {minimum} ×").expect("written");
        }
        text + "\n"
    }

    fn to_json(&self) -> String {
        let rows = self.rows.iter().map(|(name, cells)| {
            let cells = cells.iter().map(|cell| cell.map_or("null".into(), |value| format!("{value:.6}")));
            format!("[{}, {}]", quoted(name), list(cells))
        });
        let promises = self.promises.iter();
        let promises =
            promises.map(|(name, minimum, measured)| format!("[{}, {minimum}, {measured:.4}]", quoted(name)));
        format!(
            "{{\"title\": {}, \"unit\": {}, \"columns\": {}, \"rows\": {}, \"promises\": {}}}",
            quoted(&self.title),
            quoted(&self.unit),
            list(self.columns.iter().map(|name| quoted(name))),
            list(rows),
            list(promises)
        )
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Quotes a name for JSON. Names have no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns the median, the upper one of an even number of values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
