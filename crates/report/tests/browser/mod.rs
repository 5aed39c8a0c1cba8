// SPDX-License-Identifier: Apache-2.0
//! Headless Chromium, driven over its debugging pipe: JSON messages that end in a zero byte (Chrome DevTools Protocol).
#![allow(clippy::disallowed_methods, clippy::unwrap_used, unreachable_pub)] // test code starts the browser

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Ends with the value.
pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    last_id: u64,
    page: Page,
}

/// What the browser said of the page that is open.
#[derive(Debug, Default, Clone)]
pub struct Page {
    pub scheme: String,
    /// Exceptions, and whatever came to the console or the log.
    pub problems: Vec<String>,
    pub requests: usize,
    loaded: bool,
}

impl Browser {
    /// `None` when there is no Chromium. `folder` takes its profile.
    pub fn start(folder: &Path) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let path = std::env::var("PATH").unwrap_or_default();
        let program = names
            .iter()
            .flat_map(|name| path.split(':').map(move |dir| Path::new(dir).join(name)))
            .find(|p| p.exists())?;
        // the browser reads its commands on descriptor 3 and answers on 4
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let mut process = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", &profile, "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the browser");
        let to = process.stdin.take().expect("the pipe was asked for");
        let from = BufReader::new(process.stdout.take().expect("the pipe was asked for"));
        let mut browser = Self { process, to, from, session: String::new(), last_id: 0, page: Page::default() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, json!({}));
        }
        Some(browser)
    }

    /// Opens a file in a window of this size and waits until it has loaded.
    pub fn open(&mut self, path: &Path, (width, height): (u32, u32), scheme: &str) -> Page {
        let phone = width < 500;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        self.page = Page { scheme: scheme.to_owned(), ..Page::default() };
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        while !self.page.loaded {
            self.next();
        }
        self.evaluate("1"); // what the page did while it loaded has been reported before this is answered
        self.page.clone()
    }

    /// The value of an expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let expression = format!("{{ {expression} }}");
        let answer = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Of the whole page, into the folder that `WRINGER_SCREENSHOTS` names.
    pub fn save_screenshot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("WRINGER_SCREENSHOTS") else { return };
        let answer = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let file = Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(file, answer["data"].as_str().expect("a picture")).expect("save the picture");
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("tell the browser");
        loop {
            let answer = self.next();
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        let read = self.from.read_until(0, &mut bytes).expect("hear the browser");
        assert!(read > 0, "the browser has ended");
        let message: Value = serde_json::from_slice(bytes.strip_suffix(&[0]).unwrap_or(&bytes)).expect("JSON");
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.page.loaded = true,
            "Network.requestWillBeSent" => {
                let own = params["request"]["url"].as_str().unwrap_or_default().starts_with("data:");
                self.page.requests += usize::from(!own);
            }
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                self.page.problems.push(params.to_string())
            }
            _ => {}
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let mut rest = Vec::new();
        while matches!(self.from.read_until(0, &mut rest), Ok(read) if read > 0) {
            rest.clear();
        }
        let _ = self.process.wait();
    }
}
