// SPDX-License-Identifier: Apache-2.0
//! Asks a server that runs whether it has what the table of capabilities says of its flavour and version.

use crate::{Error, Sandbox};
use capability::{Answer, Capability, Verdict, questions, words};
use load::admin::Connection;

/// One capability: the table's words and the server's.
#[derive(Debug, Clone)]
pub struct Asked {
    pub capability: Capability,
    /// Of the table, for this flavour and version; none: it lacks it.
    pub words: &'static [&'static str],
    pub sql: &'static str,
    pub answer: Answer,
    /// Whether the server has the capability; `None`: its answer does not tell.
    pub said: Option<bool>,
    pub verdict: Verdict,
}

impl Sandbox {
    /// Everything that can be asked, without changing anything.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn ask_capabilities(&self) -> Result<Vec<Asked>, Error> {
        let (flavour, version) = (self.flavour(), &self.manifest.installation.version);
        self.talk(|connection| {
            let mut asked = Vec::new();
            for question in questions(flavour) {
                let answer = ask(connection, question.sql)?;
                let words = words(question.capability, flavour, version);
                asked.push(Asked {
                    capability: question.capability,
                    words,
                    sql: question.sql,
                    said: question.said(words, &answer),
                    verdict: question.judge(flavour, version, &answer),
                    answer,
                });
            }
            Ok(asked)
        })
    }
}

fn ask(connection: &mut Connection, sql: &str) -> Result<Answer, load::Error> {
    match connection.query(sql) {
        Ok(rows) => Ok(Answer::Rows((!rows.is_empty()).then(|| rows.text(0, 0).unwrap_or_default()))),
        Err(load::Error::Server { code, message }) => Ok(Answer::Refused { code, message }),
        Err(error) => Err(error),
    }
}
