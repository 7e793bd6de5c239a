//! Any text is lines or is refused; what is taken apart can be written down again and means the same.
#![no_main]

use arrowwood_serve::{FieldValue, Line, each_line};

/// The line as its parts say.
fn written(line: &Line<'_>) -> String {
    let escaped = |text: &str| text.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ");
    let mut text = escaped(&line.measurement);
    for (name, value) in &line.tags {
        text += &format!(",{}={}", escaped(name), escaped(value));
    }
    for (number, (name, value)) in line.fields.iter().enumerate() {
        text += if number == 0 { " " } else { "," };
        text += &escaped(name);
        text += &match value {
            FieldValue::Float(value) => format!("={value}"),
            FieldValue::Int(value) => format!("={value}i"),
            FieldValue::UInt(value) => format!("={value}u"),
            FieldValue::Bool(value) => format!("={value}"),
            FieldValue::Text(value) => format!("=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        };
    }
    if let Some(time) = line.time {
        text += &format!(" {time}");
    }
    text
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    // A backslash at the end of a name takes the meaning of what is put behind it when it is written down.
    let is_plain = !text.contains('\\') && !text.contains("inf") && !text.contains("NaN");
    let _ = each_line(text, |line| {
        assert!(!line.measurement.is_empty() && !line.fields.is_empty());
        let is_finite =
            |(_, value): &(_, FieldValue<'_>)| !matches!(value, FieldValue::Float(value) if !value.is_finite());
        if is_plain && line.fields.iter().all(is_finite) && !line.measurement.starts_with('#') {
            let mut again = Vec::new();
            each_line(&written(line), |line| {
                again.push(format!("{line:?}"));
                Ok(())
            })
            .expect("what was written down can be read");
            assert_eq!(again, [format!("{line:?}")]);
        }
        Ok(())
    });
});
