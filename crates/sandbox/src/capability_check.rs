// SPDX-License-Identifier: Apache-2.0
//! Asks a running server whether it has the capabilities that the table has for its flavour and version.

use crate::{Error, Sandbox};
use capability::{Answer, Capability, Verdict, questions, words};
use load::admin::Connection;

/// One capability: the table's words and the server's answer.
#[derive(Debug, Clone)]
pub struct CapabilityAnswer {
    pub capability: Capability,
    /// The table's words for this flavour and version; none: the server lacks the capability.
    pub words: &'static [&'static str],
    pub sql: &'static str,
    pub answer: Answer,
    /// Whether the server has the capability; `None`: its answer does not show that.
    pub said: Option<bool>,
    pub verdict: Verdict,
}

impl Sandbox {
    /// Asks about each capability that can be asked about without a change of the server.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn ask_capabilities(&self) -> Result<Vec<CapabilityAnswer>, Error> {
        let (flavour, version) = (self.flavour(), &self.manifest.installation.version);
        self.talk(|connection| {
            let mut asked = Vec::new();
            for question in questions(flavour) {
                let answer = ask(connection, question.sql)?;
                let words = words(question.capability, flavour, version);
                asked.push(CapabilityAnswer {
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
