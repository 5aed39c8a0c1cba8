// SPDX-License-Identifier: Apache-2.0
//! `wringer sandbox`: makes, uses and removes throw-away servers.

mod below_squeeze;
mod capabilities;
mod filled;
mod limits;
mod pooler;
mod servers;
mod several;
mod show;
mod slow_disk;
mod standing;
mod talk;
mod watch;
mod wrappers;

use self::several::Which;
use crate::exit::Outcome;
use crate::terminal::Output;
use clap::{Subcommand, ValueEnum};
use sandbox::ServerOption;
use std::path::PathBuf;
use units::Span;

pub use standing::{Started, Timed, supervise};
pub use watch::Watch;

#[derive(Debug, clap::Args)]
#[command(after_help = "From nothing to nothing:\n  \
    wringer sandbox deploy mariadb --name pears -c innodb_buffer_pool_size=256M\n  \
    wringer sandbox start pears\n  \
    wringer sandbox use pears 'SELECT version()'\n  \
    # set WRINGER_DSN for `wringer load`, and more\n  \
    eval \"$(wringer sandbox export pears)\"\n  \
    wringer load oltp_point_select\n  \
    wringer sandbox stop pears\n  \
    wringer sandbox delete pears\n\n\
    A server that this machine lacks is fetched by its package client, unpacked into Wringer's cache and never installed. No \
    root needed; as root, the server runs as the user behind sudo, or as nobody. Servers listen on 127.0.0.1 and on a socket, \
    with a generated password.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a sandbox: find or fetch the server, make its data directory, an account and the database sbtest
    Deploy(Deploy),
    /// Which servers can be had here: on this machine, fetched or unpacked, and offered by the distribution or as artifacts
    #[command(alias = "versions")]
    Available(Available),
    /// Ask a sandbox's server whether it can do what Wringer's table of capabilities says of its version
    Capabilities(Capabilities),
    /// Fetch a server into Wringer's cache without making a sandbox
    Fetch(Fetch),
    /// Unpack a server from the tarball of its maker into Wringer's cache
    Unpack(Unpack),
    /// The sandboxes that are there
    #[command(alias = "sandboxes")]
    List(Format),
    /// Run SQL in a sandbox, or without SQL open the server's own client
    Use(Use),
    /// Start a sandbox's server; it stays after this command
    Start(Start),
    /// Stop it cleanly
    Stop(Which),
    /// Stop it if it runs, and start it
    Restart(Start),
    /// What a sandbox is doing
    Status(Status),
    /// The end of the server's error log
    Log(Log),
    /// How to connect, as other programs want to be told
    Export(Export),
    /// Remove sandboxes with all their data
    Delete(Delete),
}

#[derive(Debug, clap::Args)]
struct Deploy {
    /// mariadb, mysql, percona or postgresql, with a version or the beginning of one: `mariadb`, `mariadb 10.11`, `mysql@9`;
    /// `xtradb 5.6` is MariaDB 10.1; or the tarball of a server. May be left out with --from: then that of the data
    #[arg(required_unless_present = "from", num_args = 1..=2, value_names = ["SERVER", "VERSION"])]
    server: Vec<String>,
    /// Begin with this data, which is only read: a data directory whose server is stopped, a prepared backup (mariabackup,
    /// xtrabackup, pg_basebackup), or a dump (mysqldump, mariadb-dump, pg_dump; also .gz, .zst, and pg_dump -Fc). What it is
    /// is found by looking
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Begin with tables that are filled: KEY=VALUE of an experiment's [fill], as in 'rows=100000 tables=2'. They are filled once, kept in
    /// the cache, and cloned for each sandbox after that
    #[arg(long, value_name = "WORDS", conflicts_with = "from")]
    filled: Option<String>,
    /// Its name [default: server and version, as in mariadb-10.11.19]
    #[arg(long)]
    name: Option<String>,
    /// A server option for all its starts; may be repeated
    #[arg(short = 'c', long = "option", value_name = "KEY=VALUE", value_parser = ServerOption::asked)]
    options: Vec<ServerOption>,
    /// Port on 127.0.0.1, kept for good [default: a free one; it moves when a start finds it taken]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Take the newest that can be fetched, even if this machine has one installed, which is taken otherwise
    #[arg(long)]
    fetched: bool,
    /// So many replicas besides, NAME-r1 and on: MariaDB and MySQL by GTID, PostgreSQL by streaming (1 to 9). With --from, each has
    /// a copy of the data
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=i64::from(sandbox::MOST_REPLICAS)))]
    replicas: u32,
    /// Start it at once
    #[arg(long)]
    start: bool,
    #[command(flatten, next_help_heading = "pgBouncer in front of it (PostgreSQL; docs/sandbox.md)")]
    pooler: pooler::PoolerArgs,
}

#[derive(Debug, clap::Args)]
struct Fetch {
    /// mariadb, mysql or postgresql, with a version or the beginning of one; `xtradb 5.6` is MariaDB 10.1; or the tarball of a
    /// server, as for `unpack`
    #[arg(required = true, num_args = 1..=2, value_names = ["SERVER", "VERSION"])]
    server: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Available {
    /// Every version that can be fetched, not the newest of each series alone
    #[arg(long)]
    all: bool,
    /// What differs between the servers and their versions, as Wringer's own table has it, instead; -o json also has where each
    /// version is known from
    #[arg(long, conflicts_with = "all")]
    capabilities: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "For a server that Wringer's makers could not try, such as one of a tarball: what differs is what Wringer would get \
    wrong with it. Each capability is asked for by SQL that changes nothing; what takes a change to find out (programs, packages, \
    options of a start) is not asked. 'open' means that the answer allows both: packages leave libraries out. Ends with exit code 1 \
    when anything differs."
)]
struct Capabilities {
    /// A sandbox whose server runs
    name: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Takes what the servers' makers publish as binaries for any Linux: mysql-VERSION-linux-glibcN-x86_64.tar.xz, \
    Percona-Server-VERSION-Linux.x86_64.glibcN.tar.gz, mariadb-VERSION-linux-systemd-x86_64.tar.gz, trees of PostgreSQL, and builds \
    of your own with the same folders. Flavour and version are what the server in it says with --version; the file's name is not \
    looked at. An archive that is damaged, or that would write outside its folder, is refused, and nothing stays. Without --sha256, the \
    checksums that its maker has published are compared where they lie beside it: TARBALL.md5, .md5sum, .sha256, .sha256sum, and the \
    lists md5sums.txt, MD5SUMS, sha256sums.txt, SHA256SUMS.\n\n\
    wringer sandbox unpack mysql-9.4.0-linux-glibc2.28-x86_64.tar.xz --sha256 SUM\n  \
    wringer sandbox deploy mysql 9.4"
)]
struct Unpack {
    /// A tar file, plain or packed by xz, gzip or zstd
    #[arg(value_name = "TARBALL")]
    archive: PathBuf,
    /// Refuse the archive when the server in it is another one: mariadb, mysql, percona or postgresql
    #[arg(long)]
    flavour: Option<sandbox::Flavour>,
    /// Refuse the archive when its SHA-256 is another one [default: what lies beside it, as in TARBALL.md5, TARBALL.sha256sum or
    /// sha256sums.txt]
    #[arg(long, value_name = "SUM", value_parser = checksum)]
    sha256: Option<String>,
}

fn checksum(text: &str) -> Result<String, &'static str> {
    let is_sum = text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
    if is_sum { Ok(text.to_owned()) } else { Err("a SHA-256 has 64 hexadecimal digits") }
}

#[derive(Debug, clap::Args)]
struct Format {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct Use {
    name: String,
    /// One or several statements; without one, a script from standard input, or from a terminal the server's own client (mariadb, mysql,
    /// psql). Scripts are taken apart as those clients do it: DELIMITER, functions with semicolons in them, COPY's data, \connect
    sql: Option<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Start {
    #[command(flatten)]
    which: Which,
    /// A server option for this start only; may be repeated
    #[arg(short = 'c', long = "option", value_name = "KEY=VALUE", value_parser = ServerOption::asked)]
    options: Vec<ServerOption>,
    /// How long to wait until it answers; recovery after a crash takes its time
    #[arg(long, value_name = "SPAN", default_value = "3m")]
    wait: Span,
    /// Put its data directory on a slow disk, by name or in words: gp3, hdd, read=10ms,write=1ms (`wringer disk profiles`); needs no root.
    /// It is stopped after an hour then, unless --for says another time
    #[arg(long, value_name = "DISK", value_parser = super::squeeze::parse_disk)]
    disk: Option<diskmodel::Asked>,
    /// Stop it again after this time [default: it stays until `wringer sandbox stop`]
    #[arg(long = "for", value_name = "SPAN", value_parser = super::standing::lasting)]
    lasts: Option<Span>,
    #[command(flatten, next_help_heading = "Started in or with, until the server stops (docs/sandbox.md)")]
    wrappers: wrappers::Wrappers,
    #[command(flatten, next_help_heading = "Less than the machine has, until the server stops (docs/squeeze.md)")]
    limits: super::limits::Limits,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// All when none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Log {
    name: String,
    /// So many lines from its end
    #[arg(short = 'n', long, default_value_t = 40)]
    lines: usize,
    /// Print where the log is instead
    #[arg(long)]
    path: bool,
}

#[derive(Debug, clap::Args)]
struct Export {
    name: String,
    /// For whom: shell variables, an option file, a password file, or a connection string for `wringer load --dsn`
    #[arg(value_enum, default_value_t = ExportAs::Env)]
    form: ExportAs,
    /// The server's own port and socket, where pgBouncer stands in front of it
    #[arg(long)]
    direct: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportAs {
    Env,
    #[value(name = "my.cnf", alias = "mycnf")]
    MyCnf,
    Pgpass,
    Dsn,
}

#[derive(Debug, clap::Args)]
struct Delete {
    /// A primary is deleted with its replicas
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "NAME")]
    names: Vec<String>,
    /// All sandboxes that are there, but those that a `wringer run` has made for itself
    #[arg(long)]
    all: bool,
    /// Stop its server first, if it runs
    #[arg(long)]
    force: bool,
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Deploy(args) => servers::deploy(args),
        Command::Available(args) => servers::available(&args),
        Command::Capabilities(args) => capabilities::of_server(&args),
        Command::Unpack(args) => servers::unpack(args),
        Command::Fetch(args) => servers::fetch(&args),
        Command::List(format) => show::list(&format),
        Command::Use(args) => talk::use_sandbox(&args),
        Command::Start(args) => standing::start(&args),
        Command::Stop(which) => standing::stop(&which),
        Command::Restart(args) => standing::restart(&args),
        Command::Status(args) => show::status(&args),
        Command::Log(args) => show::log(&args),
        Command::Export(args) => talk::export(&args),
        Command::Delete(args) => servers::delete(&args),
    }
}
