// SPDX-License-Identifier: Apache-2.0
//! Memory of which no meter of a server's knows: a library that is loaded into it allocates 64 MiB when it is told to.

use super::{MIB, PATIENCE, changes, expect_near, leaf, unexplained};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use testkit::{Lab, wait_until};

/// Its thread waits for files of the names SMALL (blocks of 1000 bytes), LARGE (one block) and FREE (of the small ones all but the last), in this order, and
/// makes the file `said/NAME` when it has done so, with the bytes that the malloc has set apart: tcmalloc gives 1024 for 1000. A thread of the server's may not get
/// the server's signals.
const SOURCE: &str = r#"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define COUNT 67109
static char *blocks[COUNT], *large;
static void await(const char *name) { while (access(name, F_OK) != 0) usleep(10000); }
static void say(const char *name, size_t bytes) {
    char text[32];
    int length = snprintf(text, sizeof text, "%zu\n", bytes), fd = open(name, O_CREAT | O_WRONLY, 0644);
    if (fd >= 0) { if (write(fd, text, length) != length) abort(); close(fd); }
}
static void *plant(void *unused) {
    size_t small = 0;
    await(FOLDER "/SMALL");
    for (int i = 0; i < COUNT; i++) if ((blocks[i] = malloc(1000))) {
        memset(blocks[i], 1, 1000);
        small += malloc_usable_size(blocks[i]);
    }
    say(FOLDER "/said/SMALL", small);
    await(FOLDER "/LARGE");
    if ((large = malloc(64 << 20))) memset(large, 1, 64 << 20);
    say(FOLDER "/said/LARGE", malloc_usable_size(large));
    await(FOLDER "/FREE");
    for (int i = 0; i < COUNT - 1; i++) free(blocks[i]);
    say(FOLDER "/said/FREE", 0);
    return unused;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    pthread_create(&thread, NULL, plant, NULL);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
}
"#;

pub struct Plant {
    lab: Lab,
    library: PathBuf,
}

impl Plant {
    pub fn build() -> Self {
        let lab = Lab::new(env!("CARGO_BIN_EXE_wringer"));
        let source = lab.write("plant.c", SOURCE);
        let library = lab.home().join("plant.so");
        let folder = format!("-DFOLDER=\"{}\"", lab.home().display());
        // PostgreSQL closes a library that is not made for it: its thread goes on in it
        let words = ["-shared", "-fPIC", "-Wl,-z,nodelete", &folder, "-o"];
        assert!(Command::new("cc").args(words).arg(&library).arg(source).status().unwrap().success());
        // the server runs as a user of its own
        let said = lab.home().join("said");
        fs::create_dir(&said).unwrap();
        fs::set_permissions(said, fs::Permissions::from_mode(0o777)).unwrap();
        Self { lab, library }
    }

    pub fn library(&self) -> &str {
        self.library.to_str().unwrap()
    }

    /// SMALL, LARGE, FREE: returns when it is done, with the bytes that the malloc has set apart.
    pub fn order(&self, word: &str) -> i64 {
        self.lab.write(word, "");
        let answer = self.lab.home().join("said").join(word);
        let said = || fs::read_to_string(&answer).ok()?.strip_suffix('\n')?.parse().ok();
        let mut bytes = None;
        assert!(
            wait_until(PATIENCE, || {
                bytes = said();
                bytes.is_some()
            }),
            "no {word}"
        );
        bytes.unwrap()
    }
}

/// What was planted is unexplained, and no leaf has grown. But the program's pages: the server shares them with the servers of other tests, and when one of those ends,
/// more of them are this server's.
#[track_caller]
pub fn expect_unknown(planted: i64, without: &Value, with: &Value) {
    let grown = unexplained(with) - unexplained(without);
    expect_near(&format!("unexplained, of\n{}\n", changes(without, with)), grown, planted, 0.05);
    let leaves = with["leaves"].as_array().unwrap().iter().map(|leaf| leaf["path"].as_str().unwrap());
    for path in leaves.filter(|path| *path != "program/text") {
        let grown = leaf(with, path) - leaf(without, path);
        assert!(grown <= MIB, "{path} has grown by {grown}:\n{}", changes(without, with));
    }
}
