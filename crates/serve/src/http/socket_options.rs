//! Sets the options that all connections have, of the server and of its clients.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The time without data after which the system asks whether the other end is still there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(45);
/// The interval of further questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The number of unanswered questions after which the connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;

/// Sends data without delay, and lets the system notice if the other end vanishes. If the system refuses an option, the
/// connection works without it.
pub(crate) fn set_options(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_RETRIES);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
