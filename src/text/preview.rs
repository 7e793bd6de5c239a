//! Datasets as tables, in text and HTML. Printing never fails: damaged values are shown in place.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::iter::once;
use std::ops::Range;
use std::path::Path;

use super::display::{ellipsize, format_bytes, format_count, plural};
use crate::array::Value;
use crate::dataset::{Dataset, Row};
use crate::error::Result;
use crate::escape::escape_hidden;
use crate::map::ChangeCheck;
use crate::types::field_type_name;

/// A printable view of a dataset: `println!("{}", dataset.preview().rows(20).width(120))`.
#[derive(Clone, Copy, Debug)]
pub struct Preview<'a> {
    dataset: &'a Dataset,
    rows: u64,
    width: usize,
    cell: usize,
    bare: bool,
}

impl Dataset {
    /// The dataset for printing: 10 rows, first and last, in lines of at most 100 characters.
    pub fn preview(&self) -> Preview<'_> {
        Preview { dataset: self, rows: 10, width: 100, cell: 30, bare: false }
    }

    /// The dataset as an HTML table for notebooks.
    pub fn to_html(&self) -> String {
        Preview { cell: 60, ..self.preview() }.html()
    }
}

impl Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.preview().fmt(f)
    }
}

/// A printed column.
struct PrintedColumn {
    name: String,
    type_name: String,
    /// Whether to align right, as for numbers.
    right: bool,
    cells: Vec<String>,
}

/// A row to print; `None` is the gap between the first and the last rows.
type PreviewLine<'a> = Option<Result<Row<'a>>>;

impl<'a> Preview<'a> {
    /// Shows `rows` rows, first and last, or all if there are no more.
    pub fn rows(self, rows: u64) -> Preview<'a> {
        Preview { rows, ..self }
    }

    /// Omits columns in the middle that don't fit into `width` characters.
    pub fn width(self, width: usize) -> Preview<'a> {
        Preview { width, ..self }
    }

    /// Prints only the rows and their header, without the lines that describe the dataset.
    pub fn bare(self) -> Preview<'a> {
        Preview { bare: true, ..self }
    }

    fn lines(&self, len: &Result<u64>) -> Vec<PreviewLine<'a>> {
        let top = self.rows.div_ceil(2);
        let bottom = self.rows / 2;
        let rows = |numbers: Range<u64>| numbers.map(|number| Some(self.dataset.row(number)));
        match len {
            Ok(len) if *len <= self.rows => rows(0..*len).collect(),
            Ok(len) => rows(0..top).chain(once(None)).chain(rows(len - bottom..*len)).collect(),
            Err(_) => rows(0..top).take_while(|row| matches!(row, Some(Ok(_)))).collect(),
        }
    }

    fn printed(&self, column: usize, lines: &[PreviewLine<'_>]) -> PrintedColumn {
        let field = self.dataset.schema().field(column);
        let cell = |line: &PreviewLine<'_>| match line {
            None => "…".into(),
            Some(Ok(row)) => cell_text(row.get(column), self.cell),
            Some(Err(e)) => cell_text(Err(e.clone()), self.cell),
        };
        PrintedColumn {
            name: ellipsize(field.name(), self.cell),
            type_name: ellipsize(field_type_name(field), self.cell),
            right: field.data_type().is_numeric(),
            cells: lines.iter().map(cell).collect(),
        }
    }

    /// At most `most` columns, first and last, and the position of the gap.
    fn columns(&self, lines: &[PreviewLine<'_>], most: usize) -> (VecDeque<PrintedColumn>, Option<usize>) {
        let count = self.dataset.num_columns();
        let (left, right) = if count <= most { (count, count) } else { (most.div_ceil(2), count - most / 2) };
        let columns = (0..left).chain(right..count).map(|column| self.printed(column, lines)).collect();
        (columns, (left < right).then_some(left))
    }

    /// The columns that fit, alternating first and last, with a column of `…` for omitted ones.
    fn fitting(&self, lines: &[PreviewLine<'_>]) -> Vec<PrintedColumn> {
        let (mut columns, gap) = self.columns(lines, self.width / 3 + 2);
        let alone = columns.len() == 1 && gap.is_none();
        if alone
            || gap.is_none() && columns.iter().map(PrintedColumn::room).sum::<usize>() <= self.width.saturating_add(2)
        {
            return columns.into();
        }
        let mut room = self.width.saturating_sub(1);
        let mut left = Vec::new();
        let mut right = VecDeque::new();
        while let Some(column) = take_end(&mut columns, left.len() > right.len()) {
            room = match room.checked_sub(column.room()) {
                None if !left.is_empty() => break,
                rest => rest.unwrap_or(0),
            };
            if left.len() > right.len() { right.push_front(column) } else { left.push(column) }
        }
        left.into_iter().chain(once(PrintedColumn::gap(lines.len()))).chain(right).collect()
    }

    fn title(&self, len: &Result<u64>) -> String {
        let rows = len.as_ref().map_or("? rows".into(), |len| plural(*len, "row", "rows"));
        let columns = plural(self.dataset.num_columns() as u64, "column", "columns");
        let batches = len.as_ref().ok().and_then(|_| self.dataset.num_batches().ok());
        let batches = batches.map_or(String::new(), |n| format!(", {}", plural(n as u64, "batch", "batches")));
        format!("Dataset: {rows} × {columns}{batches}{}", self.origin())
    }

    fn origin(&self) -> String {
        let mut paths: Vec<&Path> =
            self.dataset.pieces().iter().filter_map(|piece| piece.source.facts().path).collect();
        paths.dedup();
        match &paths[..] {
            [] => String::new(),
            [path] => format!(" in {}", escape_hidden(&path.to_string_lossy())),
            [path, more @ ..] => {
                let path = path.to_string_lossy();
                let more = format_count(more.len() as u64);
                format!(" in {} and {more} more", escape_hidden(&path))
            }
        }
    }

    fn footer(&self, len: &Result<u64>) -> String {
        let it = self.dataset.footprint();
        match len {
            Ok(_) => format!("{} mapped, {} copied", format_bytes(it.mapped), format_bytes(it.copied)),
            Err(e) => ellipsize(format_args!("<error: {e}>"), 500),
        }
    }

    /// The whole text, or the error if the file has changed meanwhile.
    fn text(&self) -> Result<String> {
        self.dataset.with_change_check(ChangeCheck::Now, || {
            let len = self.dataset.len();
            let mut text = String::new();
            let lines = self.lines(&len);
            if !self.bare {
                text.push_str(&self.title(&len));
                text.push('\n');
            }
            if self.dataset.num_columns() > 0 {
                write_table(&mut text, &self.fitting(&lines), lines.len());
            }
            if !self.bare {
                text.push_str(&self.footer(&len));
            }
            Ok(text)
        })
    }

    fn html(&self) -> String {
        let html = self.dataset.with_change_check(ChangeCheck::Now, || Ok(self.html_text()));
        html.unwrap_or_else(|e| format!("<div>\n<p>{}</p>\n</div>\n", escape(&format!("<error: {e}>"))))
    }

    fn html_text(&self) -> String {
        let len = self.dataset.len();
        let lines = self.lines(&len);
        let (columns, gap) = self.columns(&lines, 20);
        let mut columns = Vec::from(columns);
        if let Some(gap) = gap {
            columns.insert(gap, PrintedColumn::gap(lines.len()));
        }
        let mut html = format!("<div>\n<p>{}</p>\n", escape(&self.title(&len)));
        if !columns.is_empty() {
            html_table(&mut html, &columns, lines.len());
        }
        html + &format!("<p>{}</p>\n</div>\n", escape(&self.footer(&len)))
    }
}

impl Display for Preview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<error: {e}>"),
        }
    }
}

fn take_end<T>(items: &mut VecDeque<T>, back: bool) -> Option<T> {
    if back { items.pop_back() } else { items.pop_front() }
}

impl PrintedColumn {
    fn gap(lines: usize) -> PrintedColumn {
        PrintedColumn { name: "…".into(), type_name: String::new(), right: false, cells: vec!["…".into(); lines] }
    }

    fn width(&self) -> usize {
        let texts = self.cells.iter().chain([&self.name, &self.type_name]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }

    /// The width, and the two spaces between columns.
    fn room(&self) -> usize {
        self.width() + 2
    }

    fn pad(&self, text: &str, width: usize) -> String {
        if self.right { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

fn write_table(into: &mut String, columns: &[PrintedColumn], lines: usize) {
    let widths: Vec<usize> = columns.iter().map(PrintedColumn::width).collect();
    let mut line = |text: &dyn Fn(&PrintedColumn, usize) -> String| {
        let cells: Vec<_> = columns.iter().zip(&widths).map(|(column, &width)| text(column, width)).collect();
        into.push_str(cells.join("  ").trim_end());
        into.push('\n');
    };
    line(&|column, width| column.pad(&column.name, width));
    line(&|column, width| column.pad(&column.type_name, width));
    line(&|_, width| "─".repeat(width));
    (0..lines).for_each(|number| line(&|column, width| column.pad(&column.cells[number], width)));
}

/// Uses only inherited colours, for dark and light pages.
fn html_table(html: &mut String, columns: &[PrintedColumn], lines: usize) {
    let row = |tag: &str, style: &str, text: &dyn Fn(&PrintedColumn) -> String| {
        let cell = |column: &PrintedColumn| {
            let align = if column.right { "right" } else { "left" };
            format!("<{tag} style=\"padding:2px 8px;text-align:{align};{style}\">{}</{tag}>", escape(&text(column)))
        };
        format!("<tr>{}</tr>\n", columns.iter().map(cell).collect::<String>())
    };
    html.push_str("<table style=\"border-collapse:collapse\">\n<thead>\n");
    html.push_str(&row("th", "", &|column| column.name.clone()));
    let rule = "font-weight:normal;opacity:0.7;border-bottom:1px solid rgba(128,128,128,0.6)";
    html.push_str(&row("th", rule, &|column| column.type_name.clone()));
    html.push_str("</thead>\n<tbody>\n");
    for number in 0..lines {
        html.push_str(&row("td", "", &|column| column.cells[number].clone()));
    }
    html.push_str("</tbody>\n</table>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Errors get twice the width: thirty characters are too short for a sentence.
fn cell_text(value: Result<Value<'_>>, room: usize) -> String {
    match value {
        Ok(value) => ellipsize(value, room),
        Err(e) => ellipsize(format_args!("<error: {}>", e.message()), 2 * room),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::*;
    use arrow_array::*;
    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::escape::is_hidden;
    use crate::{Bytes, OpenOptions};

    fn dataset(columns: Vec<(&str, ArrayRef)>) -> Dataset {
        let fields: Vec<_> = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        Dataset::try_from(vec![batch]).unwrap()
    }

    #[test]
    fn any_width_will_do() {
        let number = |n: i8| Arc::new(Int8Array::from(vec![n])) as ArrayRef;
        let dataset = dataset(vec![("x", number(1)), ("y", number(2))]);
        let wide = dataset.preview().to_string();
        assert_eq!(dataset.preview().width(usize::MAX).rows(u64::MAX).to_string(), wide);
        assert!(dataset.preview().width(0).rows(0).to_string().contains('x'));
    }

    fn numbers(n: i64) -> Dataset {
        let names: StringArray = (0..n).map(|i| Some(format!("row {i}"))).collect();
        dataset(vec![("name", Arc::new(names)), ("number", Arc::new(Int64Array::from_iter_values(0..n)))])
    }

    #[test]
    fn a_table_shows_its_first_and_last_rows() {
        let expected = "\
Dataset: 1,200 rows × 2 columns, 1 batch
name      number
utf8       int64
────────  ──────
row 0          0
row 1          1
row 2          2
row 3          3
row 4          4
…              …
row 1195    1195
row 1196    1196
row 1197    1197
row 1198    1198
row 1199    1199
0 B mapped, 0 B copied";
        assert_eq!(numbers(1200).to_string(), expected);
        assert_eq!(numbers(10).to_string().lines().count(), 1 + 3 + 10 + 1);
        assert_eq!(numbers(3).preview().rows(2).bare().to_string().lines().count(), 3 + 3);
        assert_eq!(numbers(0).to_string().lines().count(), 1 + 3 + 1);
        assert!(numbers(1).to_string().starts_with("Dataset: 1 row × 2 columns, 1 batch\n"));
        assert_eq!(numbers(9).preview().rows(0).bare().to_string().lines().count(), 3 + 1);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_in_the_middle() {
        let column = || -> ArrayRef { Arc::new(Int64Array::from(vec![123_456])) };
        let names: Vec<_> = (0..1000).map(|i| format!("column{i}")).collect();
        let wide = dataset(names.iter().map(|name| (&name[..], column())).collect());
        for width in [0, 1, 20, 40, 100, 101, 102, 103, 9000] {
            let text = wide.preview().width(width).bare().to_string();
            let header = text.lines().next().unwrap();
            assert!(header.starts_with("column0") && header.contains(if width < 40 { "…" } else { "column999" }));
            assert!(text.lines().all(|line| line.chars().count() <= width.max(10)), "{width}: {text}");
        }
        let two = wide.select(&["column0", "column1"]).unwrap();
        assert!(!two.preview().width(16).bare().to_string().contains('…'));
        assert!(two.preview().width(15).bare().to_string().contains('…'));
        assert!(!two.select(&["column0"]).unwrap().preview().width(1).to_string().contains('…'));
        let none = Dataset::from_batches(Arc::new(Schema::empty()), vec![]).unwrap();
        assert!(none.to_string().starts_with("Dataset: 0 rows × 0 columns"));
    }

    #[test]
    fn cells_are_cut_and_cannot_break_the_table() {
        let text = StringArray::from(vec!["a\nb\u{1b}[2J", "\u{202e}\u{200b}", &"x".repeat(31), &"y".repeat(30)]);
        let shown = dataset(vec![("t", Arc::new(text))]);
        let cells: Vec<_> = shown.to_string().lines().skip(4).take(4).map(String::from).collect();
        assert_eq!(cells, ["a\\nb\\u{1b}[2J", r"\u{202e}\u{200b}", &("x".repeat(29) + "…"), &"y".repeat(30)]);
        assert!(!shown.to_html().contains(|c| c != '\n' && is_hidden(c)));
    }

    #[test]
    fn html_is_escaped() {
        let text = StringArray::from(vec!["<script>&\"</script>"]);
        let html = dataset(vec![("<b>", Arc::new(text))]).to_html();
        assert!(!html.contains("<script>") && !html.contains("<b>"));
        assert!(html.contains("&lt;script&gt;&amp;&quot;&lt;/script&gt;") && html.contains("&lt;b&gt;"));
        assert_eq!(numbers(1000).to_html().matches("<tr>").count(), 2 + 11);
    }

    fn stream(batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    #[test]
    fn damage_shows_where_it_is() {
        let batch = numbers(3).to_record_batches().next().unwrap().unwrap();
        let mut bytes = stream(&[batch.clone(), batch]);
        let damaged = bytes.windows(5).position(|five| five == b"row 0").unwrap();
        bytes[damaged] = 0xff;
        let open = |bytes: &[u8]| OpenOptions::new().bytes(Bytes::from(bytes.to_vec())).unwrap();
        let shown = open(&bytes).to_string();
        assert!(shown.contains("<error: batch 0, column 'name': a string is not UTF-8"), "{shown}");
        assert!(shown.contains("\nrow 1 "), "{shown}");
        let cut = open(&bytes[..bytes.len() - 40]);
        let shown = cut.to_string();
        assert!(shown.starts_with("Dataset: ? rows × 2 columns\n"), "{shown}");
        assert!(shown.lines().last().unwrap().starts_with("<error: "), "{shown}");
        assert!(shown.contains("\nrow 1 "), "{shown}");
        assert!(cut.to_html().contains("&lt;error: "));
    }

    #[test]
    fn no_damage_makes_printing_panic() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, Some([None])]);
        let dictionary: DictionaryArray<Int8Type> = ["a", "b", "a"].into_iter().collect();
        let times = TimestampNanosecondArray::from(vec![1, 2, 3]).with_timezone("UTC");
        let columns: Vec<(_, ArrayRef)> =
            vec![("l", Arc::new(list)), ("d", Arc::new(dictionary)), ("t", Arc::new(times))];
        let batch = dataset(columns).to_record_batches().next().unwrap().unwrap();
        let whole = stream(&[batch]);
        for (at, damage) in (0..whole.len()).flat_map(|at| [0x01, 0x80, 0xff].map(|damage| (at, damage))) {
            let mut bytes = whole.clone();
            bytes[at] ^= damage;
            let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes)) else { continue };
            assert!(dataset.to_string().starts_with("Dataset: ") && dataset.to_html().ends_with("</div>\n"));
            for (_, value) in dataset.rows().take(5).flatten().flat_map(|row| row.iter()) {
                let _ = value.and_then(|value| value.to_csv_cell().map(|cell| cell.len()));
            }
        }
    }
}
