// SPDX-License-Identifier: Apache-2.0
//! The lines by which a server that systemd starts is told to take a malloc. People read and set them; nothing here sets them.

use capability::{MallocKind, malloc_setting};

/// Lines of a drop-in file for the server's unit. Where a package must be installed first, a comment line says so.
pub fn lines(malloc: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pairs: Vec<(String, String)> = Vec::new();
    match malloc_setting(malloc) {
        Some(setting) => {
            if let Some(package) = setting.kind.packages().first() {
                lines.push(format!("# the library comes with Debian's package {package}"));
            }
            if setting.kind != MallocKind::Glibc {
                let library = setting.kind.libraries().first().copied().unwrap_or_default();
                pairs.push(("LD_PRELOAD".into(), library.into()));
            }
            pairs.extend(setting.environment.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        }
        None => {
            let path = malloc.split_once('=').map_or(malloc, |(_, path)| path);
            pairs.push(("LD_PRELOAD".into(), path.into()));
        }
    }
    lines.push("[Service]".to_owned());
    lines.extend(pairs.iter().map(|(name, value)| format!("Environment=\"{name}={value}\"")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_and_its_settings() {
        let told = lines("jemalloc-background").join("\n");
        assert!(told.contains("libjemalloc2") && told.contains("\"LD_PRELOAD=libjemalloc.so.2\""), "{told}");
        assert!(told.contains("\"MALLOC_CONF=background_thread:true"), "{told}");
        assert_eq!(lines("glibc-trim"), ["[Service]", "Environment=\"MALLOC_TRIM_THRESHOLD_=131072\""]);
        assert_eq!(lines("mine=/opt/x.so"), ["[Service]", "Environment=\"LD_PRELOAD=/opt/x.so\""]);
    }
}
