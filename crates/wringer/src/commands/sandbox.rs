// SPDX-License-Identifier: Apache-2.0
//! `wringer sandbox`: makes, uses and removes throw-away servers.

mod below_squeeze;
mod capabilities;
mod filled;
mod pooler;
mod servers;
mod several;
mod show;
mod squeezed;
mod standing;
mod talk;
mod timed;
mod watch;
mod wrappers;

use self::several::Which;
use crate::exit::Outcome;
use crate::terminal::Output;
use clap::{Subcommand, ValueEnum};
use sandbox::ServerOption;
use std::path::PathBuf;
use units::Span;

pub use standing::supervise;
pub use timed::{Started, Timed};
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
    /// The state of a sandbox's server
    Status(Status),
    /// The end of the server's error log
    Log(Log),
    /// Print how to connect, in the form that another program reads
    Export(Export),
    /// Remove sandboxes with all their data
    Delete(Delete),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer sandbox deploy mariadb 10.11 --name shop --start\n  \
    # with your own data\n  \
    wringer sandbox deploy mariadb --from shop.sql.gz --name shop --start\n  \
    # with tables that are filled once, and cloned for each sandbox after that\n  \
    wringer sandbox deploy postgresql --filled 'rows=1000000' --name big\n  \
    wringer sandbox deploy mysql --replicas 2 --start")]
struct Deploy {
    /// mariadb, mysql, percona or postgresql, with a version or the beginning of one: `mariadb`, `mariadb 10.11`, `mysql@9`;
    /// `xtradb 5.6` is MariaDB 10.1; or the tarball of a server. May be left out with --from: then it is the server that the data belong to
    #[arg(required_unless_present = "from", num_args = 1..=2, value_names = ["SERVER", "VERSION"])]
    server: Vec<String>,
    /// Begin with this data, which is only read: a data directory whose server is stopped, a prepared backup (mariabackup,
    /// xtrabackup, pg_basebackup), or a dump (mysqldump, mariadb-dump, pg_dump; also .gz, .zst, and pg_dump -Fc). Wringer looks at the files to see which of
    /// these they are
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Begin with tables that are filled: KEY=VALUE of an experiment's [fill], as in 'rows=100000 tables=2', or as the last of them a program
    /// that fills, as in 'command=./fill.sh {dsn}'; its arguments are split at spaces. They are filled once, kept in the cache, and
    /// cloned for each sandbox after that
    #[arg(long, value_name = "WORDS", conflicts_with = "from")]
    filled: Option<String>,
    /// The sandbox's name [default: server and version, such as mariadb-10.11.19]
    #[arg(long)]
    name: Option<String>,
    /// A server option for all its starts; may be repeated
    #[arg(short = 'c', long = "option", value_name = "KEY=VALUE", value_parser = ServerOption::asked)]
    options: Vec<ServerOption>,
    /// Port on 127.0.0.1, kept for good [default: a free one; it moves when a start finds it taken]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Take the newest server that can be fetched. Without this flag, a server that is installed on this machine is taken first
    #[arg(long)]
    fetched: bool,
    /// Also make this number of replicas, 1 to 9, named NAME-r1 and so on: MariaDB and MySQL by GTID, PostgreSQL by streaming. With --from, each has
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
#[command(after_help = "Examples:\n  \
    # the newest 11.4 that a package source offers\n  \
    wringer sandbox fetch mariadb 11.4\n  \
    wringer sandbox fetch ./Percona-Server-8.0.tar.xz")]
struct Fetch {
    /// mariadb, mysql or postgresql, with a version or the beginning of one; `xtradb 5.6` is MariaDB 10.1; or the tarball of a
    /// server, as for `unpack`
    #[arg(required = true, num_args = 1..=2, value_names = ["SERVER", "VERSION"])]
    server: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer sandbox available --all\n  \
    wringer sandbox available --capabilities -o json")]
struct Available {
    /// List every version that can be fetched, not only the newest of each series
    #[arg(long)]
    all: bool,
    /// Print instead Wringer's own table of the differences between servers and versions; with -o json also the source of each row
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
    after_help = "The tarball is one that the server's maker publishes for any Linux: mysql-VERSION-linux-glibcN-x86_64.tar.xz, \
    Percona-Server-VERSION-Linux.x86_64.glibcN.tar.gz, mariadb-VERSION-linux-systemd-x86_64.tar.gz, a tree of PostgreSQL, or your own \
    build with the same folders. The name of the file says nothing to Wringer: it asks the server in it for --version. An archive that is damaged, \
    or that would write outside its folder, is refused, and nothing of it stays.\n\n\
    Without --sha256, the tarball is compared with the checksums beside it, if there are any: TARBALL.md5, .md5sum, .sha256 or .sha256sum, \
    or one of the lists md5sums.txt, MD5SUMS, sha256sums.txt, SHA256SUMS.\n\n\
    Examples:\n  \
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
    /// Refuse the archive when its SHA-256 is another one [default: the checksum that lies beside it, in TARBALL.md5, TARBALL.sha256sum or
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
#[command(after_help = "Examples:\n  \
    wringer sandbox use shop 'SELECT version()'\n  \
    wringer sandbox use shop < script.sql\n  \
    # the server's own client\n  \
    wringer sandbox use shop")]
struct Use {
    /// The sandbox; `wringer sandbox list` has the names
    name: String,
    /// One or several statements; without one, a script from standard input, or from a terminal the server's own client (mariadb, mysql,
    /// psql). Scripts are taken apart as those clients do it: DELIMITER, functions with semicolons in them, COPY's data, \connect
    sql: Option<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer sandbox start shop -c max_connections=500\n  \
    # a small machine, for half an hour\n  \
    sudo wringer sandbox start shop --ram 512M --cpus 1 --disk gp3 --for 30m\n  \
    # a slow disk alone needs no root\n  \
    wringer sandbox start shop --disk read=10ms,sync=1ms\n\n\
    `sudo wringer` sees only sandboxes that were deployed with sudo.")]
struct Start {
    #[command(flatten)]
    which: Which,
    /// A server option for this start only; may be repeated
    #[arg(short = 'c', long = "option", value_name = "KEY=VALUE", value_parser = ServerOption::asked)]
    options: Vec<ServerOption>,
    /// How long to wait until it answers; recovery after a crash takes its time
    #[arg(long, value_name = "SPAN", default_value = "3m")]
    wait: Span,
    /// Put its data directory on a slow disk, by name or in words: gp3, hdd-7200, read=10ms,write=1ms (`wringer disk profiles`); needs no root.
    /// Then the server is stopped after an hour, unless --for says another time
    #[arg(long, value_name = "DISK", value_parser = super::squeeze::parse_disk)]
    disk: Option<diskmodel::DiskRequest>,
    /// Stop it again after this time [default: it stays until `wringer sandbox stop`]
    #[arg(long = "for", value_name = "SPAN", value_parser = super::standing::lasting)]
    lasts: Option<Span>,
    #[command(flatten, next_help_heading = "How the server is started, for this start only (docs/sandbox.md)")]
    wrappers: wrappers::Wrappers,
    #[command(flatten, next_help_heading = "Limits of the server, until it stops (docs/squeeze.md)")]
    limits: super::limits::Limits,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// The sandboxes; without a name, all of them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer sandbox log shop -n 100\n  \
    tail -f \"$(wringer sandbox log shop --path)\"")]
struct Log {
    /// The sandbox; `wringer sandbox list` has the names
    name: String,
    /// How many lines from the end of the log
    #[arg(short = 'n', long, default_value_t = 40)]
    lines: usize,
    /// Print where the log is instead
    #[arg(long)]
    path: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # variables for `wringer load`, mysql, psql and others\n  \
    eval \"$(wringer sandbox export shop)\"\n  \
    wringer load oltp_read_only\n  \
    mariadb --defaults-file=<(wringer sandbox export shop my.cnf)")]
struct Export {
    /// The sandbox; `wringer sandbox list` has the names
    name: String,
    /// The form: shell variables, an option file, a password file, or a connection string for `wringer load --dsn`
    #[arg(value_enum, default_value_t = ExportAs::Env)]
    form: ExportAs,
    /// Print the server's own port and socket, where pgBouncer is in front of the server
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
#[command(after_help = "Examples:\n  \
    # also when it runs\n  \
    wringer sandbox delete shop --force\n  \
    wringer sandbox delete --all")]
struct Delete {
    /// The sandboxes; a primary is deleted with its replicas
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "NAME")]
    names: Vec<String>,
    /// All sandboxes, except those that a `wringer run` has made for itself
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
