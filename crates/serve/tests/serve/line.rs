//! Compares our parser of line protocol with InfluxDB's own.

use arrowwood_serve::{FieldValue, Line, each_line};
use influxdb_line_protocol::{FieldValue as InfluxValue, ParsedLine, parse_lines};
use proptest::prelude::*;

/// A line in a form that both parsers can produce. Values are formatted with a prefix that tells their type.
#[derive(Debug, PartialEq)]
struct NormalizedLine {
    measurement: String,
    tags: Vec<(String, String)>,
    fields: Vec<(String, String)>,
    time: Option<i64>,
}

impl From<&Line<'_>> for NormalizedLine {
    fn from(line: &Line<'_>) -> NormalizedLine {
        NormalizedLine {
            measurement: line.measurement.to_string(),
            tags: line.tags.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            fields: line.fields.iter().map(|(name, value)| (name.to_string(), format_value(value))).collect(),
            time: line.time,
        }
    }
}

impl From<&ParsedLine<'_>> for NormalizedLine {
    fn from(line: &ParsedLine<'_>) -> NormalizedLine {
        let tags = line.series.tag_set.iter().flatten();
        NormalizedLine {
            measurement: line.series.measurement.to_string(),
            tags: tags.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            fields: line.field_set.iter().map(|(name, value)| (name.to_string(), format_influx_value(value))).collect(),
            time: line.timestamp,
        }
    }
}

fn format_value(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::Float(value) => format!("f {value:?}"),
        FieldValue::Int(value) => format!("i {value}"),
        FieldValue::UInt(value) => format!("u {value}"),
        FieldValue::Bool(value) => format!("b {value}"),
        FieldValue::Text(value) => format!("t {value}"),
    }
}

fn format_influx_value(value: &InfluxValue<'_>) -> String {
    match value {
        InfluxValue::F64(value) => format!("f {value:?}"),
        InfluxValue::I64(value) => format!("i {value}"),
        InfluxValue::U64(value) => format!("u {value}"),
        InfluxValue::Boolean(value) => format!("b {value}"),
        InfluxValue::String(value) => format!("t {value}"),
    }
}

fn parse_with_arrowwood(text: &str) -> Result<Vec<NormalizedLine>, String> {
    let mut lines = Vec::new();
    each_line(text, |line| {
        lines.push(NormalizedLine::from(line));
        Ok(())
    })
    .map_err(|e| e.to_string())?;
    Ok(lines)
}

fn parse_with_influxdb(text: &str) -> Result<Vec<NormalizedLine>, String> {
    let mut lines = Vec::new();
    for line in parse_lines(text) {
        lines.push(NormalizedLine::from(&line.map_err(|e| e.to_string())?));
    }
    Ok(lines)
}

#[test]
fn lines_of_the_specification_parse_as_in_influxdb() {
    for text in [
        "weather,location=us-midwest temperature=82 1465839830100400200",
        "weather,location=us-midwest,season=summer temperature=82,humidity=71i 1465839830100400200",
        "weather temperature=82",
        "weather temperature=\"too warm\"",
        "weather temperature=\"too \\\"hot\\\" \\\\o/\"",
        "weather humid=t,dry=FALSE,wet=true,x=F,y=T,z=False",
        "weather t=-1.5e-3,u=12u,v=-7i,w=1.0",
        "wea\\,ther,loca\\ tion=us\\,mid\\=west tem\\ p=1",
        "a\\b,c\\d=e\\f g\\h=1",
        "m,t=v f=\"a\nb\" 1",
        "# comment\n\n  \nm f=1\nm f=2\n",
        "m f=1 1\n\n\nm f=2 2",
        "mäß,größe=żółć wert=\"☃\"",
    ] {
        let lines = parse_with_arrowwood(text);
        assert!(lines.is_ok(), "{text}: {lines:?}");
        assert_eq!(lines, parse_with_influxdb(text), "{text}");
    }
    // InfluxDB accepts these, but its parser in Rust does not.
    assert_eq!(parse_with_arrowwood("m f=1.\r\n"), parse_with_arrowwood("m f=1.0\n"));
    assert_eq!(parse_with_arrowwood("m f=1\r\nm f=2\r\n"), parse_with_arrowwood("m f=1\nm f=2\n"));
}

#[test]
fn invalid_lines_are_rejected() {
    for text in [
        "m",
        "m ",
        "m,",
        "m,t",
        "m,t=",
        "m,=v f=1",
        "m f",
        "m f=",
        "m =1",
        ",t=v f=1",
        "m f=1,",
        "m f=\"a",
        "m f=x",
        "m f=1 x",
        "m f=1 1 1",
        "m f=1i.5",
        "m f=1e999",
    ] {
        let lines = parse_with_arrowwood(text);
        assert!(lines.is_err(), "{text}: {lines:?}");
    }
    // The error names the line in the text, counting the lines within a value.
    let error = parse_with_arrowwood("m f=1\n# ok\nm f=\"two\nlines\"\nm f=?\n").unwrap_err();
    assert!(error.starts_with("line 5: field 'f': '?'"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn accepted_lines_equal_those_of_influxdb(
        names in prop::collection::vec("[a-zäß_][a-z0-9ä]{0,3}", 6),
        tag_value in "[a-zäß0-9]{1,4}",
        text in "[a-z ,=äß]{0,6}",
        int in any::<i64>(),
        float in -1e9f64..1e9,
        time in prop::option::of(any::<i64>()),
        tag_count in 0usize..3,
    ) {
        let mut line = names[0].clone();
        for tag in &names[1..1 + tag_count] {
            line += &format!(",{tag}={tag_value}");
        }
        line += &format!(" {}={float:?},{}={int}i,x=\"{text}\"", names[4], names[5]);
        if let Some(time) = time {
            line += &format!(" {time}");
        }
        let two_lines = format!("{line}\n{line}");
        let parsed = parse_with_arrowwood(&two_lines);
        prop_assert!(parsed.is_ok(), "{two_lines:?}: {parsed:?}");
        prop_assert_eq!(parsed, parse_with_influxdb(&two_lines));
    }

    #[test]
    fn arbitrary_text_parses_or_is_rejected(text in "[a-c=, \\\\\"\n\r0-9iutf#.-]{0,40}") {
        if let Ok(lines) = parse_with_arrowwood(&text) {
            prop_assert!(lines.iter().all(|line| !line.measurement.is_empty() && !line.fields.is_empty()));
        }
    }
}
