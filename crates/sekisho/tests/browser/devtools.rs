//! A browser that is driven: it opens a page, is clicked and typed at, and says what it shows. It
//! speaks the DevTools protocol over two pipes, so that no port is opened and no library is needed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE, Scratch, program, url};

/// A page in a browser that is ended with this value.
pub(crate) struct Driven {
    browser: Child,
    orders: ChildStdin,
    replies: Receiver<Value>,
    session: Value,
    last: u64,
    /// Messages that scripts wrote to the console, threw, or were warned of.
    complaints: Vec<String>,
    _profile: Scratch,
}

impl Driven {
    /// Starts a browser without a page.
    pub(crate) fn start() -> Driven {
        let profile = Scratch::new();
        let mut user_data = std::ffi::OsString::from("--user-data-dir=");
        user_data.push(profile.join("profile"));
        // The browser reads orders from descriptor 3 and writes replies to 4.
        let mut browser = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-extensions",
                "--remote-debugging-pipe",
            ])
            .arg(user_data)
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser must start");
        let orders = browser.stdin.take().expect("piped above");
        let mut output = BufReader::new(browser.stdout.take().expect("piped above"));
        let (sender, replies) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).expect("the browser writes JSON");
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let (session, complaints) = (Value::Null, Vec::new());
        let mut driven =
            Driven { browser, orders, replies, session, last: 0, complaints, _profile: profile };
        let targets = driven.send("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().expect("a list of targets");
        let page = targets.iter().find(|target| target["type"] == "page").expect("one page");
        let order = json!({"targetId": page["targetId"], "flatten": true});
        driven.session = driven.send("Target.attachToTarget", order)["sessionId"].take();
        for domain in ["Page", "Runtime", "Log"] {
            driven.send(&format!("{domain}.enable"), json!({}));
        }
        driven
    }

    /// Opens a file in a window of this size, and returns when it has loaded.
    pub(crate) fn open(&mut self, file: &Path, size: (u32, u32)) {
        let address = url(file).into_string().expect("a path of the tests is text");
        self.visit(&address, size);
    }

    /// The same for an address.
    pub(crate) fn visit(&mut self, address: &str, (width, height): (u32, u32)) {
        self.send(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
        self.send("Page.navigate", json!({"url": address}));
        let loaded = "document.readyState === 'complete' && location.protocol !== 'about:'";
        self.wait_for(loaded);
    }

    /// Sends an order and returns its result.
    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut order = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_null() {
            order["sessionId"] = self.session.clone();
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.orders.write_all(&bytes).expect("the browser takes orders");
        loop {
            let mut message = self
                .replies
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("the browser did not reply to {method}"));
            if message["id"] == json!(self.last) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            let heard = message["method"].as_str().unwrap_or_default();
            if matches!(
                heard,
                "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded"
            ) {
                self.complaints.push(message["params"].to_string());
            }
        }
    }

    /// The value of an expression in the page; a promise is waited for.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.send("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression) != json!(true) {
            if Instant::now() > deadline {
                let text = self.value("document.body?.innerText");
                panic!("never came true: {expression}\n{text}\n{:?}", self.complaints);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            self.send("Input.dispatchKeyEvent", params);
        }
    }

    /// The whole page as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        use base64::Engine as _;
        let params = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.send("Page.captureScreenshot", params);
        let text = picture["data"].as_str().expect("a picture in base64");
        base64::engine::general_purpose::STANDARD.decode(text).expect("the browser writes base64")
    }

    /// Complaints of scripts so far.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // It may have ended by itself, which is what is wanted.
        self.browser.kill().ok();
        self.browser.wait().ok();
    }
}
