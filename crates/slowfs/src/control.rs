// SPDX-License-Identifier: Apache-2.0
//! Talks to a running layer: one JSON object for each line, each way, over a Unix socket in the run's folder.
//!
//! | request | answer |
//! | --- | --- |
//! | `{"do":"get"}` | `{"delay":{"read_us":0,"write_us":0,"sync_us":0,"mode":"add"},"model":{...}}`, the medians and the whole disk model |
//! | `{"do":"set","delay":{...}}` | the same, when the new delay is in force |
//! | `{"do":"set","model":{...}}` | the same, for a disk model; its credits and queues start anew |
//! | `{"do":"hold","model":{...}}` | the same, for as long as this connection is open or until it says `let_go`: then the model from before is back, unless another client has set a model in the meantime. One connection at a time can hold |
//! | `{"do":"let_go"}` | the same |
//! | `{"do":"stats"}` | [`Stats`] |
//! | `{"do":"keeper"}` | [`Kept`]; only a disk's keeper answers it; a keeper answers `get` too |
//! | `{"do":"attached"}` | the same; tells the keeper that a loop device has opened the file |
//! | anything else | `{"error":"why"}` |

use crate::Error;
use crate::stats::Stats;
use diskmodel::Model;
use evidence::Delay;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The layer answers at once. A layer that does not answer within this time hangs or has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after accept(2) has failed. Without a free descriptor the client still waits, and the next try would fail at once, too.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A layer that a control socket can ask and set.
pub trait Controlled: Send + Sync + 'static {
    /// The medians of the model.
    fn delay(&self) -> Delay;
    fn model(&self) -> Model;
    /// # Errors
    /// The reason why this layer cannot imitate the model. The old model stays in force.
    fn set(&self, model: Model) -> Result<(), String>;
    fn stats(&self) -> Stats;
}

/// One connection to a layer.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    socket: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Get,
    Set(New),
    Hold { model: Box<Model> },
    LetGo,
    Stats,
    Keeper,
    Attached,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum New {
    Delay(Delay),
    Model(Box<Model>),
}

/// The keeper's report on its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The process id of the worker that serves now.
    pub worker: u32,
    /// Workers that have died or hung, and were replaced.
    pub restarts: u32,
    /// Whether a worker that dies is replaced without an I/O error.
    pub resends: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct InForce {
    delay: Delay,
    model: Model,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    error: String,
}

impl Client {
    /// # Errors
    /// Nobody listens at `socket`.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Self, Error> {
        let socket = socket.as_ref().to_owned();
        let connect = || {
            let stream = UnixStream::connect(&socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            io::Result::Ok(BufReader::new(stream))
        };
        match connect() {
            Ok(stream) => Ok(Self { stream, socket }),
            Err(source) => Err(Error::Socket { operation: "connect to", path: socket, source }),
        }
    }

    /// Sets the delay; returns when it is in force, also for open files. Waits that are longer than the new delay end early.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn set(&mut self, delay: Delay) -> Result<(), Error> {
        self.ask::<InForce>(&Request::Set(New::Delay(delay))).map(drop)
    }

    /// The same for a whole disk model, whose credits and queues start anew.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn set_model(&mut self, model: &Model) -> Result<(), Error> {
        self.ask::<InForce>(&Request::Set(New::Model(Box::new(model.clone())))).map(drop)
    }

    /// Puts a model in force until [`Self::let_go`], or until this connection ends, however it ends: also when this process is killed.
    ///
    /// # Errors
    /// [`Error::Refused`]: another connection holds one. The layer is gone.
    pub fn hold(&mut self, model: &Model) -> Result<(), Error> {
        self.ask::<InForce>(&Request::Hold { model: Box::new(model.clone()) }).map(drop)
    }

    /// Puts back the model from before [`Self::hold`]. Waits that are longer than it asks end early. Without a hold it does nothing.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn let_go(&mut self) -> Result<(), Error> {
        self.ask::<InForce>(&Request::LetGo).map(drop)
    }

    /// # Errors
    /// The layer is gone.
    pub fn get(&mut self) -> Result<Delay, Error> {
        Ok(self.ask::<InForce>(&Request::Get)?.delay)
    }

    /// # Errors
    /// The layer is gone.
    pub fn model(&mut self) -> Result<Model, Error> {
        Ok(self.ask::<InForce>(&Request::Get)?.model)
    }

    /// # Errors
    /// The layer is gone.
    pub fn stats(&mut self) -> Result<Stats, Error> {
        self.ask(&Request::Stats)
    }

    /// # Errors
    /// It is no keeper's socket, or the keeper is gone.
    pub(crate) fn kept(&mut self) -> Result<Kept, Error> {
        self.ask(&Request::Keeper)
    }

    /// # Errors
    /// As [`Self::kept`].
    pub(crate) fn attached(&mut self) -> Result<Kept, Error> {
        self.ask(&Request::Attached)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        let line = self.exchange(request).map_err(|source| Error::Socket {
            operation: "talk to",
            path: self.socket.clone(),
            source,
        })?;
        if let Ok(refusal) = serde_json::from_str::<Refusal>(&line) {
            return Err(Error::Refused { path: self.socket.clone(), answer: refusal.error });
        }
        serde_json::from_str(&line).map_err(|source| Error::Answer { source })
    }

    fn exchange(&mut self, request: &Request) -> io::Result<String> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        match self.stream.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer),
        }
    }
}

/// Answers every client, forever.
pub fn serve<L: Controlled>(listener: &UnixListener, layer: &Arc<L>) {
    let is_held = Arc::new(AtomicBool::new(false));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let (layer, is_held) = (layer.clone(), is_held.clone());
        let converse = move || converse(stream, &mut Conversation::new(&*layer, &is_held));
        // Without a thread the connection closes, and the client notices that.
        let _ = std::thread::Builder::new().name("control".into()).spawn(converse);
    }
}

fn converse(stream: UnixStream, conversation: &mut Conversation<'_, impl Controlled>) -> Option<()> {
    let mut answers = stream.try_clone().ok()?;
    for line in BufReader::new(stream).lines() {
        let mut answer = conversation.answer(&line.ok()?);
        answer.push('\n');
        answers.write_all(answer.as_bytes()).ok()?;
    }
    Some(())
}

/// The conversation with one client. A model that the client holds ends with the conversation.
struct Conversation<'a, L: Controlled> {
    layer: &'a L,
    /// Whether any client holds a model.
    is_held: &'a AtomicBool,
    held: Option<Held>,
}

/// A model that one client holds, and the one that comes back.
struct Held {
    model: Model,
    before: Model,
}

impl<'a, L: Controlled> Conversation<'a, L> {
    fn new(layer: &'a L, is_held: &'a AtomicBool) -> Self {
        Self { layer, is_held, held: None }
    }

    fn answer(&mut self, line: &str) -> String {
        let done = match serde_json::from_str(line) {
            Ok(Request::Get) => Ok(()),
            Ok(Request::Set(New::Delay(delay))) => self.layer.set(delay.into()),
            Ok(Request::Set(New::Model(model))) => self.layer.set(*model),
            Ok(Request::Hold { model }) => self.hold(*model),
            Ok(Request::LetGo) => self.let_go(),
            Ok(Request::Stats) => return written(&self.layer.stats()),
            Ok(Request::Keeper | Request::Attached) => Err("this is no keeper".into()),
            Err(error) => Err(error.to_string()),
        };
        match done {
            Ok(()) => written(&InForce { delay: self.layer.delay(), model: self.layer.model() }),
            Err(error) => refused(error),
        }
    }

    fn hold(&mut self, model: Model) -> Result<(), String> {
        self.let_go()?;
        if self.is_held.swap(true, Ordering::SeqCst) {
            return Err("another connection holds a model".into());
        }
        let before = self.layer.model();
        let held = self.layer.set(model.clone());
        match held {
            Ok(()) => self.held = Some(Held { model, before }),
            Err(_) => self.is_held.store(false, Ordering::SeqCst),
        }
        held
    }

    fn let_go(&mut self) -> Result<(), String> {
        let Some(Held { model, before }) = self.held.take() else { return Ok(()) };
        // a model that another client has set in the meantime stays
        let back = if self.layer.model() == model { self.layer.set(before) } else { Ok(()) };
        self.is_held.store(false, Ordering::SeqCst);
        back
    }
}

impl<L: Controlled> Drop for Conversation<'_, L> {
    fn drop(&mut self) {
        let _ = self.let_go();
    }
}

/// A keeper's answer. A keeper sets no delay: only its worker does.
pub(crate) fn keeper_answer(request: Result<Request, serde_json::Error>, model: &Model, kept: &Kept) -> String {
    match request {
        Ok(Request::Get) => written(&InForce { delay: model.delay(), model: model.clone() }),
        Ok(Request::Keeper | Request::Attached) => written(kept),
        Ok(Request::Set(_) | Request::Hold { .. } | Request::LetGo | Request::Stats) => {
            refused("this is the keeper: ask the worker".into())
        }
        Err(error) => refused(error.to_string()),
    }
}

fn refused(error: String) -> String {
    written(&Refusal { error })
}

fn written(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_else(|error| format!("{{\"error\":\"write the answer: {error}\"}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use evidence::DelayMode;

    #[test]
    fn a_client_sets_gets_and_counts() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("slowfs.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let none = Delay { read_us: 0, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false };
        let engine = Arc::new(Engine::new(none, 1));
        let serving = engine.clone();
        std::thread::spawn(move || serve(&listener, &serving));

        let mut client = Client::connect(&socket).unwrap();
        assert_eq!(client.get().unwrap(), none);
        let slow = Delay { read_us: 10_000, write_us: 0, sync_us: 7, mode: DelayMode::Total, varies: false };
        client.set(slow).unwrap();
        assert_eq!(Client::connect(&socket).unwrap().get().unwrap(), slow);
        assert_eq!(engine.delay(), slow);
        engine.answer(
            engine.arrive(diskmodel::Class::Write, crate::rule::Place { file: 1, offset: 0, bytes: 4096 }),
            || {},
        );
        let stats = client.stats().unwrap();
        assert_eq!((stats.delay, stats.writes, stats.write_bytes), (slow, 1, 4096));
        assert_eq!(stats.write_latency.got.count(), 1);

        let mut model = Model::from(slow);
        model.depth = Some(4);
        client.set_model(&model).unwrap();
        assert_eq!(client.model().unwrap(), model);
        assert!(client.get().unwrap().varies);
    }

    #[test]
    fn a_model_is_held_for_as_long_as_its_connection() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("slowfs.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let slow = |read_us| Delay { read_us, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false };
        let engine = Arc::new(Engine::new(slow(5), 1));
        let serving = engine.clone();
        std::thread::spawn(move || serve(&listener, &serving));
        let [mut one, mut other] = [(); 2].map(|()| Client::connect(&socket).unwrap());

        one.hold(&slow(70_000).into()).unwrap();
        assert_eq!(engine.delay(), slow(70_000));
        let refused = other.hold(&slow(1).into()).unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
        one.let_go().unwrap();
        assert_eq!(engine.delay(), slow(5));

        other.hold(&slow(80_000).into()).unwrap();
        one.set(slow(6)).unwrap();
        other.let_go().unwrap();
        assert_eq!(engine.delay(), slow(6), "somebody else has set it");

        other.hold(&slow(90_000).into()).unwrap();
        drop(other);
        let is_back = || engine.delay() == slow(6);
        assert!(
            (0..500).any(|_| is_back() || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }),
            "it is back"
        );
        one.hold(&slow(1).into()).unwrap();
    }

    /// Without a free descriptor accept(2) fails at once, again and again. The same happens on a non-blocking listener.
    #[test]
    fn a_listener_that_cannot_accept_costs_no_processor() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("slowfs.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let none = Delay { read_us: 0, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false };
        let engine = Arc::new(Engine::new(none, 1));
        let (told, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            told.send(rustix::thread::gettid()).unwrap();
            serve(&listener, &engine);
        });
        let thread = heard.recv().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let took = host::process::ThreadLook::at(thread).unwrap().cpu_ticks;
        assert!(took < 10, "{took} ticks of processor time within 2 s");
    }

    #[test]
    fn nonsense_is_refused_and_the_connection_goes_on() {
        let none = Delay { read_us: 0, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false };
        let (engine, is_held) = (Engine::new(none, 1), AtomicBool::new(false));
        let answer = |line: &str| Conversation::new(&engine, &is_held).answer(line);
        for line in ["", "{}", r#"{"do":"fly"}"#, r#"{"do":"set"}"#, r#"{"do":"set","delay":{"read_us":-1}}"#] {
            assert!(answer(line).contains("error"), "{line}");
        }
        assert!(answer(r#"{"do":"get"}"#).contains("read_us"));
    }
}
