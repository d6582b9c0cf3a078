/** The launchd agent on macOS. Pure. Starts at login; restarted after a crash, but not after a clean stop. */
import type { ServiceDefinition } from './definition.ts';

export const AGENT_LABEL = 'svc.daemon';

/** Longer than the drain after a signal and the shutdown after it. */
const STOP_SECONDS = 45;

export function launchAgent({ command, environment, errorLog }: ServiceDefinition): string {
  const variables = Object.entries(environment).map(([name, value]) => `    ${key(name)}\n    ${string(value)}`);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    '<dict>',
    `  ${key('Label')}\n  ${string(AGENT_LABEL)}`,
    `  ${key('ProgramArguments')}\n  <array>`,
    ...command.map((argument) => `    ${string(argument)}`),
    '  </array>',
    ...(variables.length === 0 ? [] : [`  ${key('EnvironmentVariables')}\n  <dict>`, ...variables, '  </dict>']),
    `  ${key('RunAtLoad')}\n  <true/>`,
    `  ${key('KeepAlive')}\n  <dict>\n    ${key('SuccessfulExit')}\n    <false/>\n  </dict>`,
    `  ${key('ExitTimeOut')}\n  <integer>${String(STOP_SECONDS)}</integer>`,
    `  ${key('Umask')}\n  <integer>${String(0o077)}</integer>`,
    `  ${key('ProcessType')}\n  ${string('Interactive')}`,
    `  ${key('StandardErrorPath')}\n  ${string(errorLog)}`,
    '</dict>',
    '</plist>',
    '',
  ].join('\n');
}

function key(name: string): string {
  return `<key>${escape(name)}</key>`;
}

function string(text: string): string {
  return `<string>${escape(text)}</string>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
