//! Tests a query over three servers on separate hosts: network namespaces that a bridge connects. Skipped, with a
//! message, without root or `ip`.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrowwood::WriterOptions;

use crate::cluster::{sorted_by_ts, symbol_rows, tick_rows};
use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood-datafusion");

/// Runs `ip`. Returns false if it fails or does not exist.
fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Network namespaces and the processes in them, which are removed on drop.
struct Network {
    /// The switch, followed by the hosts.
    namespaces: Vec<String>,
    processes: Vec<Child>,
}

impl Drop for Network {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Fails if it has ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
        for namespace in &self.namespaces {
            ip(&["netns", "del", namespace]);
        }
    }
}

fn namespace_name(suffix: &str) -> String {
    format!("awc{}{suffix}", std::process::id())
}

impl Network {
    /// Creates a switch and hosts with the addresses `10.78.0.1`, `10.78.0.2` and so on. Returns `None` if the system
    /// does not allow it.
    fn try_new(hosts: usize) -> Option<Network> {
        let mut network = Network { namespaces: Vec::new(), processes: Vec::new() };
        let switch = namespace_name("s");
        if !ip(&["netns", "add", &switch]) {
            return None;
        }
        network.namespaces.push(switch.clone());
        let has_bridge = ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])
            && ip(&["-n", &switch, "link", "set", "br0", "up"]);
        if !has_bridge {
            return None;
        }
        for host in 1..=hosts {
            if !network.add_host(host, &switch) {
                return None;
            }
        }
        Some(network)
    }

    /// Adds a host and connects it to the switch. Returns false on failure.
    fn add_host(&mut self, host: usize, switch: &str) -> bool {
        let namespace = namespace_name(&host.to_string());
        let cable = format!("c{host}");
        let address = format!("10.78.0.{host}/24");
        if !ip(&["netns", "add", &namespace]) {
            return false;
        }
        self.namespaces.push(namespace.clone());
        ip(&["-n", &namespace, "link", "set", "lo", "up"])
            && ip(&["-n", &namespace, "link", "add", "eth0", "type", "veth", "peer", "name", &cable, "netns", switch])
            && ip(&["-n", &namespace, "address", "add", &address, "dev", "eth0"])
            && ip(&["-n", &namespace, "link", "set", "eth0", "up"])
            && ip(&["-n", switch, "link", "set", &cable, "master", "br0", "up"])
    }

    /// Returns a command that runs the program on a host.
    fn program_on(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespaces[host], PROGRAM]);
        command
    }

    fn serve(&mut self, host: usize, directory: &Path, list: &Path) {
        let address = format!("10.78.0.{host}:7447");
        let mut command = self.program_on(host);
        command.arg("serve").arg(directory).args(["--listen", &address, "--insecure", "--worker"]).arg(list);
        self.processes.push(command.stdout(Stdio::null()).spawn().unwrap());
    }

    fn run_sql(&self, host: usize, list: &Path, sql: &str) -> Output {
        let mut command = self.program_on(host);
        command.args(["sql", "--csv", "--insecure", "--cluster"]).arg(list).arg(sql).output().unwrap()
    }

    /// Repeats a statement until it succeeds, as servers take a moment until they listen.
    fn run_sql_with_retries(&self, host: usize, list: &Path, sql: &str) -> Output {
        let start = Instant::now();
        loop {
            let output = self.run_sql(host, list, sql);
            if output.status.success() || start.elapsed() > Duration::from_secs(60) {
                return output;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn three_hosts_answer_and_a_disconnected_one_is_an_error() {
    const CLIENT: usize = 4;
    let Some(mut network) = Network::try_new(CLIENT) else {
        eprintln!("left out: hosts as network namespaces need root and `ip netns`");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("hosts.txt");
    std::fs::write(&list, (1..=3).map(|host| format!("http://10.78.0.{host}:7447\n")).collect::<String>()).unwrap();
    let mut ticks = Vec::new();
    for host in 1..=3 {
        let host_directory = directory.path().join(host.to_string());
        std::fs::create_dir(&host_directory).unwrap();
        ticks.push(tick_rows(host as u64, 10_000 * host));
        write_table(&ticks[host - 1..], &host_directory.join("ticks"), sorted_by_ts());
        if host == 2 {
            let names = symbol_rows(&["IBM", "SAP"]);
            write_table(&[names], &host_directory.join("names"), WriterOptions::default());
        }
        network.serve(host, &host_directory, &list);
    }
    let memory = new_context(1);
    register_memory(&memory, "ticks", &ticks);
    let sql = "select symbol, count(*) as n, sum(price) as sum from ticks where symbol in ('IBM', 'SAP') \
               group by symbol order by symbol";
    let expected = tokio::runtime::Runtime::new().unwrap().block_on(sql_lines(&memory, sql));
    let expected: Vec<String> = expected.iter().map(|line| line.split_whitespace().collect::<String>()).collect();

    let sql = "select symbol, count(*) as n, sum(price) as sum from ticks join names using (symbol) \
               group by symbol order by symbol";
    let output = network.run_sql_with_retries(CLIENT, &list, sql);
    let csv = String::from_utf8_lossy(&output.stdout).into_owned();
    let actual: Vec<String> = csv.lines().skip(1).map(|line| format!("|{}|", line.replace(',', "|"))).collect();
    assert_eq!(actual, expected, "{}", stderr_text(&output));

    assert!(ip(&["-n", &network.namespaces[2], "link", "set", "eth0", "down"]));
    let output = network.run_sql(CLIENT, &list, sql);
    let stderr = stderr_text(&output);
    assert!(!output.status.success() && output.stdout.is_empty() && stderr.contains("10.78.0.2"), "{stderr}");
}
