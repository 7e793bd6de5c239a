//! Three servers and a client, each a host of its own: network namespaces around a switch. Needs root and `ip`; is left out
//! without, and says so.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrowwood::WriterOptions;

use crate::cluster::{names, sorted, ticks};
use crate::support;

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood-datafusion");

/// Runs `ip`; false where that is not possible.
fn ip(words: &[&str]) -> bool {
    Command::new("ip").args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Namespaces that are removed with what runs in them.
struct Network {
    names: Vec<String>,
    running: Vec<Child>,
}

impl Drop for Network {
    fn drop(&mut self) {
        for process in &mut self.running {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

impl Network {
    /// A switch and so many hosts, `10.78.0.1` and so on; `None` where there can't be any.
    fn try_new(hosts: usize) -> Option<Network> {
        let name = |of: &str| format!("awc{}{of}", std::process::id());
        let mut network = Network { names: Vec::new(), running: Vec::new() };
        let switch = name("s");
        if !ip(&["netns", "add", &switch]) {
            return None;
        }
        network.names.push(switch.clone());
        let mut done = ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"]);
        done = done && ip(&["-n", &switch, "link", "set", "br0", "up"]);
        for host in 1..=hosts {
            let own = name(&host.to_string());
            let cable = format!("c{host}");
            let address = format!("10.78.0.{host}/24");
            done = done && ip(&["netns", "add", &own]);
            network.names.push(own.clone());
            done = done && ip(&["-n", &own, "link", "set", "lo", "up"]);
            done = done
                && ip(&["-n", &own, "link", "add", "eth0", "type", "veth", "peer", "name", &cable, "netns", &switch]);
            done = done && ip(&["-n", &own, "address", "add", &address, "dev", "eth0"]);
            done = done && ip(&["-n", &own, "link", "set", "eth0", "up"]);
            done = done && ip(&["-n", &switch, "link", "set", &cable, "master", "br0", "up"]);
        }
        done.then_some(network)
    }

    fn on(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host], PROGRAM]);
        command
    }

    fn serve(&mut self, host: usize, directory: &Path, list: &Path) {
        let mut command = self.on(host);
        command.arg("serve").arg(directory).args([
            "--listen",
            &format!("10.78.0.{host}:7447"),
            "--insecure",
            "--worker",
        ]);
        self.running.push(command.arg(list).stdout(Stdio::null()).spawn().unwrap());
    }

    fn ask(&self, host: usize, list: &Path, sql: &str) -> Output {
        self.on(host).args(["sql", "--csv", "--insecure", "--cluster"]).arg(list).arg(sql).output().unwrap()
    }
}

#[test]
fn three_hosts_of_a_network_answer_as_one_would() {
    let Some(mut network) = Network::try_new(4) else {
        eprintln!("left out: hosts as network namespaces need root and `ip netns`");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("hosts.txt");
    std::fs::write(&list, (1..=3).map(|host| format!("http://10.78.0.{host}:7447\n")).collect::<String>()).unwrap();
    let mut all = Vec::new();
    for host in 1..=3 {
        let own = folder.path().join(host.to_string());
        std::fs::create_dir(&own).unwrap();
        all.push(ticks(host as u64, 10_000 * host));
        support::write_table(&all[host - 1..], &own.join("ticks"), sorted());
        if host == 2 {
            support::write_table(&[names(&["IBM", "SAP"])], &own.join("names"), WriterOptions::default());
        }
        network.serve(host, &own, &list);
    }
    let sql = "select symbol, count(*) as n, sum(price) as sum from ticks join names using (symbol) group by symbol order by symbol";
    // Servers take a moment until they listen.
    let begun = Instant::now();
    let answer = loop {
        let answer = network.ask(4, &list, sql);
        if answer.status.success() || begun.elapsed() > Duration::from_secs(60) {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let told = String::from_utf8_lossy(&answer.stderr).into_owned();
    let one = support::context(1);
    let table = datafusion::datasource::MemTable::try_new(all[0].schema(), vec![all]).unwrap();
    one.register_table("ticks", std::sync::Arc::new(table)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let expected = "select symbol, count(*) as n, sum(price) as sum from ticks where symbol in ('IBM', 'SAP') group by symbol order by symbol";
    let expected = runtime.block_on(support::lines(&one, expected));
    let expected: Vec<String> = expected.iter().map(|line| line.split_whitespace().collect::<String>()).collect();
    let found = String::from_utf8_lossy(&answer.stdout).into_owned();
    let found: Vec<String> = found.lines().skip(1).map(|line| format!("|{}|", line.replace(',', "|"))).collect();
    assert_eq!(found, expected, "{told}");
    // A cable is pulled.
    assert!(ip(&["-n", &network.names[2], "link", "set", "eth0", "down"]));
    let answer = network.ask(4, &list, sql);
    let told = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(!answer.status.success() && answer.stdout.is_empty() && told.contains("10.78.0.2"), "{told}");
}
