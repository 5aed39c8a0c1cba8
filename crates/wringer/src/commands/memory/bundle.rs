// SPDX-License-Identifier: Apache-2.0
//! `wringer memory bundle`: the data on a server's memory that people usually collect by hand, in one archive or folder.

use super::{Looked, Read};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, plain};
use bundle::{Files, INVENTORY};
use host::files::{new_private_dir, private_dir, write_atomic};
use ledger::{Assumed, Inventory};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use units::{Bytes, counted};

#[derive(Debug, clap::Args)]
#[command(
    mut_arg("keep", |it| it.hide(true)),
    mut_arg("from", |it| it.hide(true)),
    after_help = "A bundle has no passwords, no values of statements and no page of the server's memory. It has the names of accounts, of files and of programs on the \
    host. Its README.txt says what each file is.\n\n\
    Examples:\n  \
      wringer memory bundle --sandbox shop --to shop.tar.gz\n  \
      # a folder instead of an archive\n  \
      sudo wringer memory bundle --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me --to shop\n  \
      # on another machine: the same answers from the bundle\n  \
      wringer memory account --from shop.tar.gz\n  \
      wringer memory oom --from shop.tar.gz\n  \
      wringer memory worst-case --from shop.tar.gz\n\n\
    More: docs/memory.md, or `wringer doc memory`."
)]
pub(super) struct Args {
    /// The archive to write (FILE.tar.gz or FILE.tgz), or a folder; it must not be there yet
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    looked: Looked,
}

pub(super) fn main(args: &Args) -> Outcome {
    let looked = &args.looked;
    if looked.keep.is_some() || looked.from.is_some() {
        return Err(Failure::message(
            Exit::Usage,
            "a bundle is made from a server that runs: --keep and --from are for the other commands",
        ));
    }
    refuse_existing(&args.to)?;
    let (read, texts) = looked.collect()?;
    let mut files: Files = texts.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    computed(&mut files, &read.inventory)?;
    files.insert("README.txt".into(), readme(&read).into_bytes());
    let files = bundle::seal(files).map_err(|error| Failure::new(Exit::Failed, error))?;
    let bytes = write(&args.to, &files, read.inventory.at_unix_us / 1_000_000)?;
    match looked.output {
        terminal::Output::Json => {
            terminal::json(&json!({ "schema": 1, "path": args.to, "files": files.len(), "bytes": bytes }));
        }
        terminal::Output::Text => {
            let count = counted(files.len() as u64, "file");
            terminal::data(format!("{}\n{}: {count}, {}", read.of, args.to.display(), Bytes(bytes)));
        }
    }
    Ok(())
}

/// Refuses what exists: another bundle is not replaced, and no file of it comes into this one.
fn refuse_existing(to: &Path) -> Outcome {
    if to.exists() {
        let message = format!("{} is there already", to.display());
        return Err(Failure::message(Exit::Missing, message).hint("name a new folder, or a new FILE.tar.gz"));
    }
    Ok(())
}

fn is_archive(to: &Path) -> bool {
    let name = to.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Adds the raw inventory, and the answers that this build computes from it.
fn computed(files: &mut Files, inventory: &Inventory) -> Outcome {
    let failed = |error: serde_json::Error| Failure::new(Exit::Failed, error);
    files.insert(INVENTORY.to_owned(), serde_json::to_vec(inventory).map_err(failed)?);
    let mut add = |name: &str, text: serde_json::Result<String>| -> Outcome {
        files.insert(name.to_owned(), (text.map_err(failed)? + "\n").into_bytes());
        Ok(())
    };
    add("account.json", pretty(&ledger::account(inventory)))?;
    add("oom.json", pretty(&ledger::oom(inventory)))?;
    add("worst-case.json", pretty(&ledger::worst_case(inventory, &Assumed::default())))
}

fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    report::pretty(value)
}

fn write(to: &Path, files: &Files, at_unix_s: u64) -> Result<u64, Failure> {
    let refused = |error: host::Error| Failure::new(Exit::Missing, error);
    if is_archive(to) {
        let packed = bundle::pack(files, at_unix_s).map_err(|error| Failure::new(Exit::Failed, error))?;
        write_atomic(to, &packed, 0o600).map_err(refused)?;
        return Ok(packed.len() as u64);
    }
    new_private_dir(to).map_err(refused)?;
    for (path, content) in files {
        let file = to.join(path);
        if let Some(folder) = file.parent().filter(|folder| *folder != to) {
            private_dir(folder, 0o700).map_err(refused)?;
        }
        write_atomic(&file, content, 0o600).map_err(refused)?;
    }
    Ok(files.values().map(|content| content.len() as u64).sum())
}

fn readme(read: &Read) -> String {
    format!(
        "What was read of the memory of\n  {}\n\n{README}\nMade by wringer {}.\n",
        plain(&read.of),
        env!("CARGO_PKG_VERSION")
    )
}

const README: &str = "\
inventory.json    the raw data. `wringer memory account --from THIS` computes its answer from it, and so do oom and worst-case
account.json, oom.json, worst-case.json
                  the answers that were computed from it on the machine where it was collected
ps.tsv            the server's processes first, then all others of the host: sizes, OOM scores. Without arguments
proc/PID/         status, limits, cgroup and command line, of each process of the server. smaps and smaps_rollup are written from the inventory: large
                  mappings were read page by page, so as not to hold up the server, and have no flags
host/             files of the kernel about the memory of the host, and settings
cgroup/           files of the server's memory cgroup
sql/              the server's settings and counters about memory; \"BUFFER POOL AND MEMORY\" of InnoDB; the five memory summaries of performance_schema;
                  the views of sys about memory; of PostgreSQL its shared memory, its sessions without their statements. A line that begins
                  with # says why there is nothing
manifest.json     length and CRC-32C of each file

The figures on memory of pt-summary are in host/proc/meminfo, host/settings.tsv and ps.tsv; those of pt-mysql-summary are in sql/variables.tsv,
sql/status.tsv and sql/status_of_caches.tsv.

Not in it: passwords, connection strings, values in statements, the content of the server's memory. In it: names of accounts, hosts, databases, tables
where a file of theirs is mapped, programs. In command lines, what follows the name of a secret is ***.
";
