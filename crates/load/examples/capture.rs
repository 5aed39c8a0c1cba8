// SPDX-License-Identifier: Apache-2.0
//! Takes the captures that `tests/protocol.rs` plays back: what a real server says, byte for byte.
//! `cargo run -p load --example capture -- 'mysql://user:password@host/database' > tests/captures/NAME.hex`
//! (`login` behind it: the login alone; over a Unix socket with `?socket=`). PostgreSQL wants an account with the method `trust`: SCRAM is different each time.

#[path = "../tests/captures/script.rs"]
#[allow(unreachable_pub)]
mod script;

use load::protocol::{Discard, Event, Login, Session};
use load::{Endpoint, Protocol, Target};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).ok_or("a connection string, please")?.parse()?;
    let Endpoint::Socket(path) = &target.endpoint else { return Err("a Unix socket, please".into()) };
    let mut stream = UnixStream::connect(path)?;
    let script = match target.protocol {
        _ if std::env::args().nth(2).as_deref() == Some("login") => &[],
        Protocol::Mysql => script::MYSQL,
        Protocol::Postgresql => script::POSTGRESQL,
    };
    let (mut out, mut heard, mut used) = (Vec::new(), Vec::new(), 0);
    let mut session = Session::new(target.protocol, Login::new(&target), &mut out);
    let mut script = script.iter();
    loop {
        stream.write_all(&out)?;
        out.clear();
        let fed = session.feed(&heard[used..], &mut Discard, &mut out)?;
        used += fed.consumed;
        match fed.event {
            Some(Event::StartTls) => return Err("no TLS here".into()),
            Some(_) => match script.next() {
                Some(say) => script::say(&mut session, *say, &mut out),
                None => break,
            },
            None if out.is_empty() => {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk)?;
                heard.extend_from_slice(&chunk[..count]);
                if count == 0 {
                    return Err("the server hung up".into());
                }
            }
            None => {}
        }
    }
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "# {} {}", target.protocol.name(), session.server_version())?;
    for line in heard.chunks(40) {
        let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(stdout, "{hex}")?;
    }
    Ok(())
}
