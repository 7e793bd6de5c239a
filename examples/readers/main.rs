//! What readers cost a writer: `readers [SECONDS]` commits single rows at full speed alone, beside eight processes that
//! follow the table (they sleep until something is new, and look at what came ten times a second or at once), and beside
//! eight that refresh it without a pause. On fewer than nine processors the readers take the writer's own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Value, Writer, WriterOptions, follow, open};

#[path = "../../tests/support/running.rs"]
mod running;
#[path = "../../tests/support/wait.rs"]
mod wait;

use running::Running;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["read", way, table] => read(way, Path::new(table)),
        [] => measure(3.0),
        [seconds] => measure(seconds.parse().unwrap()),
        _ => std::process::exit(2),
    }
}

fn read(way: &str, table: &Path) {
    let mut dataset = open(table).unwrap();
    let mut following = follow(&dataset, None, None).unwrap();
    println!("following");
    loop {
        match way {
            "busy" => dataset = dataset.refresh().unwrap(),
            _ => drop(following.poll(Duration::from_secs(1)).unwrap()),
        }
        if way == "paced" {
            // No wait, but the reader's pace.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Commits for so long, a row at a time; `pause` lies between commits. Returns commits per second of the writer's time.
fn commits(writer: &mut Writer, time: Duration, pause: Duration) -> f64 {
    let (begin, mut count, mut busy) = (Instant::now(), 0u64, Duration::ZERO);
    let batch = if pause.is_zero() { 1000 } else { 1 };
    while begin.elapsed() < time {
        let start = Instant::now();
        for _ in 0..batch {
            let row = [Value::Int(count as i64), Value::Float64(0.5), Value::Int(1), Value::Int(2)];
            writer.append_row(&row).unwrap();
            writer.commit().unwrap();
            count += 1;
        }
        busy += start.elapsed();
        if !pause.is_zero() {
            // No wait, but the writer's pace.
            std::thread::sleep(pause);
        }
    }
    count as f64 / busy.as_secs_f64()
}

fn measure(seconds: f64) {
    let place = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(place).unwrap();
    let table = folder.path().join("ticks");
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let int = DataType::Int64;
    let fields = vec![field("a", int.clone()), field("b", DataType::Float64), field("c", int.clone()), field("d", int)];
    let mut writer = Writer::open(&table, Some(Arc::new(Schema::new(fields))), &WriterOptions::default()).unwrap();
    writer.commit().unwrap();
    let (time, program) = (Duration::from_secs_f64(seconds), std::env::current_exe().unwrap());
    let full = Duration::ZERO;
    for (name, pause) in [("at full speed", full), ("every 10 ms", Duration::from_millis(10))] {
        let alone = commits(&mut writer, time, pause);
        println!("{name}: alone {:.2} M commits per second of its time", alone / 1e6);
        for way in ["paced", "follow", "busy"] {
            let start = |_| {
                let mut command = Command::new(&program);
                Running::start(command.args(["read", way]).arg(&table).stdout(Stdio::piped()))
            };
            let mut readers: Vec<Running> = (0..8).map(start).collect();
            readers.iter_mut().for_each(|reader| assert_eq!(reader.line(), "following"));
            let beside = commits(&mut writer, time, pause);
            readers.iter_mut().for_each(Running::kill);
            let again = commits(&mut writer, time / 2, pause);
            let ratio = 2.0 * beside / (alone + again);
            println!("  beside 8 readers, {way}: {:.2} M, {ratio:.2} of alone", beside / 1e6);
        }
    }
}
