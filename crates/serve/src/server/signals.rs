//! The signals that end the server, or make it read its files again.

use std::io;

/// What a signal asks the server to do.
pub enum Request {
    /// Finish and end.
    Stop,
    /// Read the tokens and the certificate again. Only Unix has a signal for it, SIGHUP.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows has no signal for it"))]
    Reload,
}

/// The signals that the server handles; without it, they end the process.
#[cfg(unix)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// `None` if this signal is ignored.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// Listens for signals. Call this in a runtime.
    pub fn listen(ignores_hangup: bool) -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: if ignores_hangup { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next signal.
    pub async fn recv(&mut self) -> Request {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Request::Stop,
            _ = self.interrupt.recv() => Request::Stop,
            _ = hangup => Request::Reload,
        }
    }
}

/// The events of a console that the server handles; without it, they end the process.
#[cfg(windows)]
pub struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    break_key: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    /// Listens for the events of the console. Call this in a runtime.
    pub fn listen(_ignores_hangup: bool) -> io::Result<Signals> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

        Ok(Signals { interrupt: ctrl_c()?, break_key: ctrl_break()?, close: ctrl_close()?, shutdown: ctrl_shutdown()? })
    }

    /// Waits for the next event.
    pub async fn recv(&mut self) -> Request {
        tokio::select! {
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.break_key.recv() => Request::Stop,
            _ = self.close.recv() => Request::Stop,
            _ = self.shutdown.recv() => Request::Stop,
        }
    }
}
