//! Compares our parser of line protocol with InfluxDB's own.

use arrowwood_serve::{FieldValue, Line, each_line};
use influxdb_line_protocol::{FieldValue as TheirValue, parse_lines};
use proptest::prelude::*;

/// A line in a form that both parsers can produce.
type Shown = (String, Vec<(String, String)>, Vec<(String, String)>, Option<i64>);

fn format_line(line: &Line<'_>) -> Shown {
    let value = |value: &FieldValue<'_>| match value {
        FieldValue::Float(value) => format!("f {value:?}"),
        FieldValue::Int(value) => format!("i {value}"),
        FieldValue::UInt(value) => format!("u {value}"),
        FieldValue::Bool(value) => format!("b {value}"),
        FieldValue::Text(value) => format!("t {value}"),
    };
    let tags = line.tags.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let fields = line.fields.iter().map(|(name, field)| (name.to_string(), value(field))).collect();
    (line.measurement.to_string(), tags, fields, line.time)
}

fn parse_with_arrowwood(text: &str) -> Result<Vec<Shown>, String> {
    let mut lines = Vec::new();
    each_line(text, |line| {
        lines.push(format_line(line));
        Ok(())
    })
    .map_err(|e| e.to_string())?;
    Ok(lines)
}

fn parse_with_influxdb(text: &str) -> Result<Vec<Shown>, String> {
    let line = |line: Result<influxdb_line_protocol::ParsedLine<'_>, _>| {
        let line = line.map_err(|e: influxdb_line_protocol::Error| e.to_string())?;
        let value = |value: &TheirValue<'_>| match value {
            TheirValue::F64(value) => format!("f {value:?}"),
            TheirValue::I64(value) => format!("i {value}"),
            TheirValue::U64(value) => format!("u {value}"),
            TheirValue::Boolean(value) => format!("b {value}"),
            TheirValue::String(value) => format!("t {value}"),
        };
        let tags =
            line.series.tag_set.iter().flatten().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let fields = line.field_set.iter().map(|(name, field)| (name.to_string(), value(field))).collect();
        Ok((line.series.measurement.to_string(), tags, fields, line.timestamp))
    };
    parse_lines(text).map(line).collect()
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
        let ours = parse_with_arrowwood(text);
        assert!(ours.is_ok(), "{text}: {ours:?}");
        assert_eq!(ours, parse_with_influxdb(text), "{text}");
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
        assert!(parse_with_arrowwood(text).is_err(), "{text}: {:?}", parse_with_arrowwood(text));
    }
    let e = parse_with_arrowwood("m f=1\n# ok\nm f=\"two\nlines\"\nm f=?\n").unwrap_err();
    assert!(e.starts_with("line 5: field 'f': '?'"), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn accepted_lines_equal_those_of_influxdb(
        names in prop::collection::vec("[a-zäß_][a-z0-9ä]{0,3}", 6),
        value in "[a-zäß0-9]{1,4}", text in "[a-z ,=äß]{0,6}", number in any::<i64>(), float in -1e9f64..1e9,
        time in prop::option::of(any::<i64>()), tags in 0usize..3,
    ) {
        let mut line = names[0].clone();
        for tag in &names[1..1 + tags] {
            line += &format!(",{tag}={value}");
        }
        line += &format!(" {}={float:?},{}={number}i,x=\"{text}\"", names[4], names[5]);
        line += &time.map_or(String::new(), |time| format!(" {time}"));
        let text = format!("{line}\n{line}");
        prop_assert!(parse_with_arrowwood(&text).is_ok(), "{text:?}: {:?}", parse_with_arrowwood(&text));
        prop_assert_eq!(parse_with_arrowwood(&text), parse_with_influxdb(&text));
    }

    #[test]
    fn arbitrary_text_parses_or_is_rejected(text in "[a-c=, \\\\\"\n\r0-9iutf#.-]{0,40}") {
        if let Ok(lines) = parse_with_arrowwood(&text) {
            prop_assert!(lines.iter().all(|(name, _, fields, _)| !name.is_empty() && !fields.is_empty()));
        }
    }
}
