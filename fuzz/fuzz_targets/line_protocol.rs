//! Fuzzes the parser of InfluxDB's line protocol.
//!
//! A text is either rejected, or each parsed line can be formatted and parsed again to the same line.
#![no_main]

use arrowwood_serve::{FieldValue, Line, each_line};

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Lines with backslashes don't always round-trip: at the end of a name, a backslash escapes the separator that
    // `format_line` puts after it.
    let can_round_trip = !text.contains('\\') && !text.contains("inf") && !text.contains("NaN");
    // Most inputs are rejected. The callback itself never fails.
    let _ = each_line(text, |line| {
        assert!(!line.measurement.is_empty(), "a line without a measurement");
        assert!(!line.fields.is_empty(), "a line without fields");
        // A measurement that begins with '#' would be parsed as a comment.
        if can_round_trip && has_finite_fields(line) && !line.measurement.starts_with('#') {
            assert_round_trips(line);
        }
        Ok(())
    });
});

/// Returns true if no field is infinite or NaN, as the protocol has no text for these.
fn has_finite_fields(line: &Line<'_>) -> bool {
    line.fields.iter().all(|(_, value)| match value {
        FieldValue::Float(value) => value.is_finite(),
        _ => true,
    })
}

fn assert_round_trips(line: &Line<'_>) {
    // Lines borrow from their text, so they are compared as debug output.
    let mut reparsed = Vec::new();
    let formatted = format_line(line);
    each_line(&formatted, |line| {
        reparsed.push(format!("{line:?}"));
        Ok(())
    })
    .expect("a formatted line can be parsed");
    assert_eq!(reparsed, [format!("{line:?}")]);
}

fn format_line(line: &Line<'_>) -> String {
    let mut text = escape_name(&line.measurement);
    for (name, value) in &line.tags {
        text += &format!(",{}={}", escape_name(name), escape_name(value));
    }
    for (index, (name, value)) in line.fields.iter().enumerate() {
        let separator = if index == 0 { ' ' } else { ',' };
        text += &format!("{separator}{}={}", escape_name(name), format_value(value));
    }
    if let Some(time) = line.time {
        text += &format!(" {time}");
    }
    text
}

fn format_value(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::Float(value) => format!("{value}"),
        FieldValue::Int(value) => format!("{value}i"),
        FieldValue::UInt(value) => format!("{value}u"),
        FieldValue::Bool(value) => format!("{value}"),
        FieldValue::Text(value) => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// Escapes the characters that end a measurement, a tag or a field name.
fn escape_name(name: &str) -> String {
    name.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ")
}
