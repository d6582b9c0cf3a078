/** For Windows PowerShell 5.1 and PowerShell 7. */
import {
  firstWords,
  groups,
  offerOfArgument,
  offerOfFlag,
  secondWords,
  spellings,
  type Commands,
  type Offer,
} from './offers.ts';

export function powershell(commands: Commands): string {
  const next = [
    entry('', ordered(firstWords(commands))),
    ...groups.map((group) => entry(group, ordered(secondWords(commands, group)))),
    entry('help', ordered(firstWords(commands))),
  ];
  const flags = commands.map(([name, command]) => {
    const own = Object.entries(command.flags).flatMap(([flag, facts]) =>
      spellings(flag, facts).map((spelled): Described => [spelled, facts.summary]),
    );
    return entry(name, ordered([...own, ['--help', 'show help']]));
  });
  const values = commands.flatMap(([name, command]) =>
    Object.entries(command.flags).flatMap(([flag, facts]) => {
      const offer = offerOfFlag(facts);
      if (offer === undefined) return [];
      return spellings(flag, facts).map((spelled) => entry(`${name} ${spelled}`, block(offer)));
    }),
  );
  const positions = commands.flatMap(([name, command]) =>
    (command.arguments ?? []).map((argument, at) => entry(`${name} ${String(at)}`, block(offerOfArgument(argument)))),
  );
  return `# PowerShell completion for svc, made by \`svc completion powershell\`.

Register-ArgumentCompleter -Native -CommandName svc -ScriptBlock {
    param($word, $line, $position)
    # What may follow a command or a group, and the flags of each command, with descriptions.
    $words = @{
${next.join('\n')}
    }
    $flags = @{
${flags.join('\n')}
    }
    # What finds the values of a flag, and those of a command's argument by its place.
    $values = @{
${values.join('\n')}
    }
    $arguments = @{
${positions.join('\n')}
    }
${SEARCH}}
`;
}

/** Finds the command and the place of the word that is being typed, and offers what begins with it. */
const SEARCH = `\
    function Get-SvcListed($what) {
        svc $what list 2>$null | Select-Object -Skip 1 | ForEach-Object { ($_ -split ' ')[0] }
    }
    function Get-SvcFile {
        Get-ChildItem -Path "$word*" | ForEach-Object { ($word -replace '[^\\\\/]*$', '') + $_.Name }
    }

    $command = ''
    $place = 0
    $value = $null
    foreach ($element in $line.CommandElements | Select-Object -Skip 1) {
        if ($element.Extent.EndOffset -ge $position) { break }
        $text = $element.ToString()
        if ($value) { $value = $null }
        elseif ($text.StartsWith('-')) { $value = $values["$command $text"] }
        elseif ($words.ContainsKey($command)) { $command = "$command $text".Trim() }
        else { $place += 1 }
    }
    $offered = if ($value) { & $value }
        elseif ($word.StartsWith('-')) { $flags[$command] }
        elseif ($words.ContainsKey($command)) { $words[$command] }
        elseif ($arguments["$command $place"]) { & $arguments["$command $place"] }
    $described = $offered -is [System.Collections.IDictionary]
    foreach ($each in @(if ($described) { $offered.Keys } else { $offered })) {
        if (-not $each -or -not $each.StartsWith($word)) { continue }
        $help = if ($described) { $offered[$each] } else { $each }
        [System.Management.Automation.CompletionResult]::new($each, $each, 'ParameterValue', $help)
    }
`;

type Described = [word: string, description: string];

function entry(key: string, value: string): string {
  return `        ${quote(key)} = ${value}`;
}

function ordered(words: readonly Described[]): string {
  return `[ordered]@{ ${words.map(([word, description]) => `${quote(word)} = ${quote(description)}`).join('; ')} }`;
}

/** A block of code that returns what is offered. */
function block(offer: Offer): string {
  switch (offer.kind) {
    case 'words':
      return `{ ${offer.words.map(quote).join(', ')} }`;
    case 'listed':
      return `{ Get-SvcListed ${offer.by}${offer.orFile ? '; Get-SvcFile' : ''} }`;
    case 'file':
      return '{ Get-SvcFile }';
    case 'nothing':
      return '{ $null }';
  }
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
