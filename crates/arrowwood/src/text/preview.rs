//! Formats datasets as tables, in text and HTML. Printing never fails: damaged values are shown in place.

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

/// The number of rows that a preview has by default.
const DEFAULT_ROWS: u64 = 10;
/// The maximum number of characters of a line by default.
const DEFAULT_WIDTH: usize = 100;
/// The maximum number of characters of a cell.
const DEFAULT_CELL_WIDTH: usize = 30;
/// The maximum number of characters of a cell in HTML, where a browser wraps text.
const HTML_CELL_WIDTH: usize = 60;
/// The maximum number of columns in HTML.
const MAX_HTML_COLUMNS: usize = 20;
/// The maximum number of characters of an error below the table.
const MAX_ERROR_WIDTH: usize = 500;
/// The spaces between two columns.
const COLUMN_GAP: &str = "  ";

/// A printable view of a dataset: `println!("{}", dataset.preview().rows(20).width(120))`.
#[derive(Clone, Copy, Debug)]
pub struct Preview<'a> {
    dataset: &'a Dataset,
    rows: u64,
    width: usize,
    /// The maximum width of a cell.
    cell_width: usize,
    /// True to print only the table.
    bare: bool,
}

/// # Printing
impl Dataset {
    /// Returns the dataset for printing, by default 10 of its first and last rows.
    ///
    /// Lines have at most 100 characters, unless [`Preview::width`] says otherwise.
    pub fn preview(&self) -> Preview<'_> {
        Preview { dataset: self, rows: DEFAULT_ROWS, width: DEFAULT_WIDTH, cell_width: DEFAULT_CELL_WIDTH, bare: false }
    }

    /// Formats the dataset as an HTML table for notebooks.
    pub fn to_html(&self) -> String {
        Preview { cell_width: HTML_CELL_WIDTH, ..self.preview() }.html()
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
    /// True for numbers, which are aligned right.
    align_right: bool,
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

    /// Reads the rows to print, or, if the number of rows is unknown, the first rows that can be read.
    fn lines(&self, len: &Result<u64>) -> Vec<PreviewLine<'a>> {
        let num_first = self.rows.div_ceil(2);
        let num_last = self.rows / 2;
        match len {
            Ok(len) if *len <= self.rows => self.rows_in(0..*len).collect(),
            Ok(len) => {
                let last = self.rows_in(len - num_last..*len);
                self.rows_in(0..num_first).chain(once(None)).chain(last).collect()
            }
            Err(_) => self.rows_in(0..num_first).take_while(|row| matches!(row, Some(Ok(_)))).collect(),
        }
    }

    fn rows_in(&self, numbers: Range<u64>) -> impl Iterator<Item = PreviewLine<'a>> + use<'a> {
        let dataset = self.dataset;
        numbers.map(move |number| Some(dataset.row(number)))
    }

    fn print_column(&self, column: usize, lines: &[PreviewLine<'_>]) -> PrintedColumn {
        let field = self.dataset.schema().field(column);
        let mut cells = Vec::with_capacity(lines.len());
        for line in lines {
            cells.push(match line {
                None => "…".into(),
                Some(Ok(row)) => cell_text(row.get(column), self.cell_width),
                Some(Err(e)) => cell_text(Err(e.clone()), self.cell_width),
            });
        }
        PrintedColumn {
            name: ellipsize(field.name(), self.cell_width),
            type_name: ellipsize(field_type_name(field), self.cell_width),
            align_right: field.data_type().is_numeric(),
            cells,
        }
    }

    /// Prints the first and last columns, `max` in all, and returns them with the position of the gap.
    fn columns(&self, lines: &[PreviewLine<'_>], max: usize) -> (VecDeque<PrintedColumn>, Option<usize>) {
        let count = self.dataset.num_columns();
        if count <= max {
            return ((0..count).map(|column| self.print_column(column, lines)).collect(), None);
        }
        let num_first = max.div_ceil(2);
        let numbers = (0..num_first).chain(count - max / 2..count);
        (numbers.map(|column| self.print_column(column, lines)).collect(), Some(num_first))
    }

    /// Prints the columns that fit, alternating first and last, with a column of `…` for omitted ones.
    fn fitting_columns(&self, lines: &[PreviewLine<'_>]) -> Vec<PrintedColumn> {
        // A column of one character, and the gap behind it. Two more columns than fit show whether any are left out.
        const MIN_COLUMN_WIDTH: usize = 1 + COLUMN_GAP.len();
        let (mut columns, gap) = self.columns(lines, self.width / MIN_COLUMN_WIDTH + 2);
        if gap.is_none() {
            // The last column has no spaces behind it.
            let total = columns.iter().map(PrintedColumn::padded_width).sum::<usize>();
            if columns.len() == 1 || total <= self.width.saturating_add(COLUMN_GAP.len()) {
                return columns.into();
            }
        }
        // The column of omitted ones is an ellipsis.
        let mut room = self.width.saturating_sub(1);
        let mut left = Vec::new();
        let mut right = VecDeque::new();
        loop {
            let is_right = left.len() > right.len();
            let Some(column) = (if is_right { columns.pop_back() } else { columns.pop_front() }) else { break };
            room = match room.checked_sub(column.padded_width()) {
                Some(rest) => rest,
                // The first column is shown even if it does not fit.
                None if left.is_empty() => 0,
                None => break,
            };
            if is_right { right.push_front(column) } else { left.push(column) }
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
        let footprint = self.dataset.footprint();
        match len {
            Ok(_) => format!("{} mapped, {} copied", format_bytes(footprint.mapped), format_bytes(footprint.copied)),
            Err(e) => ellipsize(format_args!("<error: {e}>"), MAX_ERROR_WIDTH),
        }
    }

    /// Formats the whole text, or returns an error if the file has changed meanwhile.
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
                write_table(&mut text, &self.fitting_columns(&lines), lines.len());
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
        let (columns, gap) = self.columns(&lines, MAX_HTML_COLUMNS);
        let mut columns = Vec::from(columns);
        if let Some(gap) = gap {
            columns.insert(gap, PrintedColumn::gap(lines.len()));
        }
        let mut html = format!("<div>\n<p>{}</p>\n", escape(&self.title(&len)));
        if !columns.is_empty() {
            write_html_table(&mut html, &columns, lines.len());
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

impl PrintedColumn {
    fn gap(lines: usize) -> PrintedColumn {
        PrintedColumn {
            name: "…".into(), type_name: String::new(), align_right: false, cells: vec!["…".into(); lines]
        }
    }

    /// Returns the number of characters of the longest text.
    fn width(&self) -> usize {
        let mut width = self.name.chars().count().max(self.type_name.chars().count());
        for cell in &self.cells {
            width = width.max(cell.chars().count());
        }
        width
    }

    /// Returns the width including the gap before the next column.
    fn padded_width(&self) -> usize {
        self.width() + COLUMN_GAP.len()
    }

    fn pad(&self, text: &str, width: usize) -> String {
        if self.align_right { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

fn write_table(out: &mut String, columns: &[PrintedColumn], lines: usize) {
    let mut names = Vec::with_capacity(columns.len());
    let mut type_names = Vec::with_capacity(columns.len());
    let mut rules = Vec::with_capacity(columns.len());
    let mut cells = vec![Vec::with_capacity(columns.len()); lines];
    for column in columns {
        assert_eq!(column.cells.len(), lines, "column '{}' has a cell in each line", column.name);
        let width = column.width();
        names.push(column.pad(&column.name, width));
        type_names.push(column.pad(&column.type_name, width));
        rules.push("─".repeat(width));
        for (line, cell) in cells.iter_mut().zip(&column.cells) {
            line.push(column.pad(cell, width));
        }
    }
    for line in [names, type_names, rules].into_iter().chain(cells) {
        out.push_str(line.join(COLUMN_GAP).trim_end());
        out.push('\n');
    }
}

/// Writes an HTML table that uses only inherited colours, for dark and light pages.
fn write_html_table(html: &mut String, columns: &[PrintedColumn], lines: usize) {
    html.push_str("<table style=\"border-collapse:collapse\">\n<thead>\n");
    write_html_row(html, columns, "th", "", |column| &column.name);
    let rule = "font-weight:normal;opacity:0.7;border-bottom:1px solid rgba(128,128,128,0.6)";
    write_html_row(html, columns, "th", rule, |column| &column.type_name);
    html.push_str("</thead>\n<tbody>\n");
    for number in 0..lines {
        write_html_row(html, columns, "td", "", |column| &column.cells[number]);
    }
    html.push_str("</tbody>\n</table>\n");
}

fn write_html_row(
    html: &mut String,
    columns: &[PrintedColumn],
    tag: &str,
    style: &str,
    text: impl Fn(&PrintedColumn) -> &str,
) {
    html.push_str("<tr>");
    for column in columns {
        let align = if column.align_right { "right" } else { "left" };
        let text = escape(text(column));
        html.push_str(&format!("<{tag} style=\"padding:2px 8px;text-align:{align};{style}\">{text}</{tag}>"));
    }
    html.push_str("</tr>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Formats a cell. Errors get twice the width, as the width of a cell is too short for a sentence.
fn cell_text(value: Result<Value<'_>>, width: usize) -> String {
    match value {
        Ok(value) => ellipsize(value, width),
        Err(e) => ellipsize(format_args!("<error: {}>", e.message()), 2 * width),
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
    fn any_width_and_any_number_of_rows_can_be_printed() {
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
    fn previews_show_first_and_last_rows() {
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
        let preview = dataset(vec![("t", Arc::new(text))]);
        let cells: Vec<_> = preview.to_string().lines().skip(4).take(4).map(String::from).collect();
        assert_eq!(cells, ["a\\nb\\u{1b}[2J", r"\u{202e}\u{200b}", &("x".repeat(29) + "…"), &"y".repeat(30)]);
        assert!(!preview.to_html().contains(|c| c != '\n' && is_hidden(c)));
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
    fn damaged_cells_show_their_errors() {
        let batch = numbers(3).to_record_batches().next().unwrap().unwrap();
        let mut bytes = stream(&[batch.clone(), batch]);
        let damaged = bytes.windows(5).position(|five| five == b"row 0").unwrap();
        bytes[damaged] = 0xff;
        let open = |bytes: &[u8]| OpenOptions::new().bytes(Bytes::from(bytes.to_vec())).unwrap();
        let preview = open(&bytes).to_string();
        assert!(preview.contains("<error: batch 0, column 'name': a string is not UTF-8"), "{preview}");
        assert!(preview.contains("\nrow 1 "), "{preview}");
        let cut = open(&bytes[..bytes.len() - 40]);
        let preview = cut.to_string();
        assert!(preview.starts_with("Dataset: ? rows × 2 columns\n"), "{preview}");
        assert!(preview.lines().last().unwrap().starts_with("<error: "), "{preview}");
        assert!(preview.contains("\nrow 1 "), "{preview}");
        assert!(cut.to_html().contains("&lt;error: "));
    }

    #[test]
    fn printing_damaged_data_does_not_panic() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, Some([None])]);
        let dictionary: DictionaryArray<Int8Type> = ["a", "b", "a"].into_iter().collect();
        let times = TimestampNanosecondArray::from(vec![1, 2, 3]).with_timezone("UTC");
        let columns: Vec<(_, ArrayRef)> =
            vec![("l", Arc::new(list)), ("d", Arc::new(dictionary)), ("t", Arc::new(times))];
        let batch = dataset(columns).to_record_batches().next().unwrap().unwrap();
        let original_bytes = stream(&[batch]);
        for (at, damage) in (0..original_bytes.len()).flat_map(|at| [0x01, 0x80, 0xff].map(|damage| (at, damage))) {
            let mut bytes = original_bytes.clone();
            bytes[at] ^= damage;
            let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes)) else { continue };
            assert!(dataset.to_string().starts_with("Dataset: ") && dataset.to_html().ends_with("</div>\n"));
            for (_, value) in dataset.rows().take(5).flatten().flat_map(|row| row.iter()) {
                let _ = value.and_then(|value| value.to_csv_cell().map(|cell| cell.len()));
            }
        }
    }
}
