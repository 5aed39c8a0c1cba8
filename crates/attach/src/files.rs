// SPDX-License-Identifier: Apache-2.0
//! The files in which people have written down how to connect, where the servers' own clients look for them.

use crate::parts::{from_service_file, password_from_pgpass};
use crate::{Error, Parts, Surroundings};
use host::input;
use load::{Password, Target};
use std::path::{Path, PathBuf};

/// The parts of a connection in MySQL's option file: the file that was named, else the user's own, if there is one.
pub(crate) fn my_cnf(named: Option<&Path>, suffix: &str, around: Surroundings<'_>) -> Result<Parts, Error> {
    let (path, text) = match (named, home(around, ".my.cnf")) {
        (Some(path), _) => {
            let text = input::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
            (path.to_owned(), text)
        }
        (None, Some(path)) => match input::read(&path) {
            Ok(text) => (path, text),
            Err(_) => return Ok(Parts::default()),
        },
        (None, None) => return Ok(Parts::default()),
    };
    Parts::from_my_cnf(&text, suffix).map_err(|why| Error::OptionFile { path, why })
}

/// libpq looks into the user's file, then into the system's; a service comes before the environment.
pub(crate) fn service(name: Option<String>, around: Surroundings<'_>) -> Result<Parts, Error> {
    let Some(service) = name else { return Ok(Parts::default()) };
    let own = around.variable("PGSERVICEFILE").map(PathBuf::from).or_else(|| home(around, ".pg_service.conf"));
    let folder = around.variable("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".into());
    let looked_into: Vec<PathBuf> = own.into_iter().chain([Path::new(&folder).join("pg_service.conf")]).collect();
    for text in looked_into.iter().filter_map(|path| input::read(path).ok()) {
        let found = from_service_file(&text, &service).map_err(|why| Error::ServiceFile { why })?;
        if let Some(parts) = found {
            return Ok(parts);
        }
    }
    Err(Error::NoService { service, looked_into })
}

pub(crate) fn pgpass(target: &Target, around: Surroundings<'_>) -> Option<Password> {
    let path = around.variable("PGPASSFILE").map(PathBuf::from).or_else(|| home(around, ".pgpass"))?;
    password_from_pgpass(&input::read(&path).ok()?, target)
}

fn home(around: Surroundings<'_>, name: &str) -> Option<PathBuf> {
    around.variable("HOME").map(|home| Path::new(&home).join(name))
}
