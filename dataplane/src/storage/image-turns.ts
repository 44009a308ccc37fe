/**
 * Bounds how many images are made at a time, and how many wait for it: each holds its source and what is made of it in
 * memory.
 */
import type { ServerResponse } from 'node:http';
import type { ServiceRequest } from '../service.js';
import { StorageError } from './errors.js';

const AT_ONCE = 2;
const MOST_WAITING = 64;
/** Waiting images of one project: it must not occupy the places of all others. */
const MOST_WAITING_OF_PROJECT = 48;

interface Waiting {
  ref: string;
  take(): void;
}

export class ImageTurns {
  /** Refs of the projects whose images are being made. */
  readonly #underWay: string[] = [];
  #waiting: Waiting[] = [];

  /** Makes nothing for a client that has left, and gives its place to another. */
  async inTurn<T>({ tenant: { ref }, outgoing }: ServiceRequest, make: () => Promise<T>): Promise<T> {
    if (outgoing.destroyed) throw clientLeft();
    if (this.#underWay.length < AT_ONCE) this.#underWay.push(ref);
    else await this.#turn(ref, outgoing);
    try {
      if (outgoing.destroyed) throw clientLeft();
      return await make();
    } finally {
      this.#underWay.splice(this.#underWay.indexOf(ref), 1);
      this.#next();
    }
  }

  #turn(ref: string, outgoing: ServerResponse): Promise<void> {
    const ofProject = this.#waiting.filter((waiting) => waiting.ref === ref).length;
    if (this.#waiting.length >= MOST_WAITING || ofProject >= MOST_WAITING_OF_PROJECT) {
      throw new StorageError(503, 'SlowDown', 'Too many images are being made');
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        reject(clientLeft());
      };
      const take = () => {
        outgoing.off('close', leave);
        resolve();
      };
      const waiting = { ref, take };
      outgoing.once('close', leave);
      this.#waiting.push(waiting);
    });
  }

  /** Starts the oldest image of a project that has none in progress, so that a project with many delays no others. */
  #next(): void {
    const next = this.#waiting.find(({ ref }) => !this.#underWay.includes(ref)) ?? this.#waiting[0];
    if (!next) return;
    this.#waiting = this.#waiting.filter((other) => other !== next);
    this.#underWay.push(next.ref);
    next.take();
  }
}

const clientLeft = () => new Error('the client went away before its image was made');
